"""Serves the page on which one clicks and names the places of a map, and writes what was named.

Loopback only; requests from pages of other origins are refused.
"""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web

from svfm_ros.errors import DataError, UsageError
from svfm_ros.report.drawn_plan import drawn_plan
from svfm_ros.types import OccupancyGrid, Places
from svfm_ros.walks.place_names import PlanNames
from svfm_ros.walks.places import colour_of, places_from_cells, save_places
from svfm_ros.web.page_address import page_address
from svfm_ros.web.page_site import PageSite
from svfm_ros.web.pages import places_page
from svfm_ros.wording import counted

__all__ = ["serve_places"]

_HOST = "127.0.0.1"
_COLOURS = 12
_HEADERS = {"Cache-Control": "no-store", "X-Frame-Options": "DENY"}


def serve_places(
    grid: OccupancyGrid,
    places: Places,
    file: Path,
    port: int,
    on_start: Callable[[str], None],
    on_saved: Callable[[str], None],
) -> None:
    """Serve the page until interrupted; ``on_start`` gets its address, ``on_saved`` a sentence for each file saved."""
    try:
        asyncio.run(_PlacesServer(grid, places, file, on_saved).serve(port, on_start))
    except OSError as error:
        raise UsageError(f"cannot serve the page at {_HOST}:{port}: {error.strerror}") from error


class _PlacesServer:
    def __init__(self, grid: OccupancyGrid, places: Places, file: Path, on_saved: Callable[[str], None]) -> None:
        self._grid, self._places, self._file, self._on_saved = grid, places, file, on_saved
        self._names = PlanNames(grid)
        self._host = ""

    async def serve(self, port: int, on_start: Callable[[str], None]) -> None:
        routes = [web.get("/", self._page), web.get("/plan", self._plan)]
        routes += [web.post("/name", self._suggest), web.post("/places", self._save)]
        site = PageSite(routes, self._refusal, lambda _error: None)  # who asked is told
        try:
            port = await site.start(_HOST, port)
            self._host = f"{_HOST}:{port}"
            on_start(page_address(_HOST, port, ""))
            await asyncio.Event().wait()
        finally:
            await site.close()

    def _refusal(self, request: web.Request) -> str:
        """Why a request is not served; empty where it is."""
        own = (self._host, self._host.replace(_HOST, "localhost"))
        origin = request.headers.get("Origin", f"http://{request.host}")
        return "" if request.host in own and origin == f"http://{request.host}" else "expected a request of this page"

    async def _page(self, _request: web.Request) -> web.Response:
        return web.Response(text=places_page(), content_type="text/html", headers=_HEADERS)

    async def _plan(self, _request: web.Request) -> web.Response:
        plan = asdict(drawn_plan([], self._places, self._grid, "UTC"))
        palette = [colour_of(n) for n in range(_COLOURS)]
        return web.json_response({"plan": plan, "places": plan["places"], "palette": palette, "file": str(self._file)})

    async def _suggest(self, request: web.Request) -> web.Response:
        """A name for a new place by where it lies; empty where no rooms can be told apart."""
        try:
            asked = await _json(request)
            xy, taken = np.array([float(asked["x"]), float(asked["y"])]), [str(name) for name in asked["taken"]]
        except (DataError, KeyError, TypeError, ValueError) as error:
            return web.Response(status=400, text=f"expected x, y and the names that are taken, got {error}")
        return web.Response(text=self._names.name_at(xy, taken) or "")

    async def _save(self, request: web.Request) -> web.Response:
        try:
            self._places = places_from_cells(await _cells(request), "the page")
            save_places(self._places, self._file)
        except DataError as error:
            return web.Response(status=400, text=str(error))
        said = f"{self._file}: {counted(len(self._places), 'place')} saved"
        self._on_saved(said)
        return web.Response(text=said)


async def _json(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except (ValueError, LookupError, RecursionError) as error:  # LookupError: an encoding that nobody knows
        raise DataError(f"expected JSON, got {error}") from error
    return body if isinstance(body, dict) else {}


async def _cells(request: web.Request) -> Any:
    cells = (await _json(request)).get("places")
    if not isinstance(cells, list):
        raise DataError("expected a list called places")
    for number, cell in enumerate(cells, 1):
        if isinstance(cell, dict) and not cell.get("name"):
            raise DataError(f"place {number} has no name yet")
    return cells
