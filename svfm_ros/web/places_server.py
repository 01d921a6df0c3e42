"""Serves the page on which one clicks and names the places of a map, and writes what was named.

Loopback only; requests from pages of other origins are refused.
"""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiohttp import web

from svfm_ros.errors import DataError, UsageError
from svfm_ros.report.drawn_plan import drawn_plan
from svfm_ros.types import OccupancyGrid, Places
from svfm_ros.walks.places import colour_of, places_from_cells, save_places
from svfm_ros.web.page_address import page_address
from svfm_ros.web.pages import places_page

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
        self._host = ""

    async def serve(self, port: int, on_start: Callable[[str], None]) -> None:
        app = web.Application()
        routes = [web.get("/", self._page), web.get("/plan", self._plan), web.post("/places", self._save)]
        app.add_routes(routes)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, _HOST, port).start()
            self._host = f"{_HOST}:{runner.addresses[0][1]}"
            on_start(page_address(_HOST, runner.addresses[0][1], ""))
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    def _refused(self, request: web.Request) -> bool:
        own = (self._host, self._host.replace(_HOST, "localhost"))
        return (
            request.host not in own
            or request.headers.get("Origin", f"http://{request.host}") != f"http://{request.host}"
        )

    async def _page(self, request: web.Request) -> web.Response:
        if self._refused(request):
            return web.Response(status=403, text="expected a request of this machine\n")
        return web.Response(text=places_page(), content_type="text/html", headers=_HEADERS)

    async def _plan(self, request: web.Request) -> web.Response:
        if self._refused(request):
            return web.Response(status=403)
        plan = asdict(drawn_plan([], self._places, self._grid, "UTC"))
        palette = [colour_of(n) for n in range(_COLOURS)]
        return web.json_response({"plan": plan, "places": plan["places"], "palette": palette, "file": str(self._file)})

    async def _save(self, request: web.Request) -> web.Response:
        if self._refused(request):
            return web.Response(status=403)
        try:
            self._places = places_from_cells(await _cells(request), "the page")
            save_places(self._places, self._file)
        except DataError as error:
            return web.Response(status=400, text=str(error))
        said = f"{self._file}: {len(self._places)} place{'' if len(self._places) == 1 else 's'} saved"
        self._on_saved(said)
        return web.Response(text=said)


async def _cells(request: web.Request) -> Any:
    try:
        body = await request.json()
    except ValueError as error:
        raise DataError(f"expected JSON, got {error}") from error
    cells = body.get("places") if isinstance(body, dict) else None
    if not isinstance(cells, list):
        raise DataError("expected a list called places")
    for number, cell in enumerate(cells, 1):
        if isinstance(cell, dict) and not cell.get("name"):
            raise DataError(f"place {number} has no name yet")
    return cells
