"""Serves the routes of a page at one address, whatever clients send.

A request that is refused, or that a handler cannot use, is answered with one sentence; nothing of it is printed: the
traceback that aiohttp would print belongs to no fault of ours. Clients beyond a number get no connection, so that
they cannot take all file handles of the process.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiohttp import web

__all__ = ["PageSite"]

_MOST_CLIENTS = 200
_SHUTDOWN_S = 1.0

_silent = logging.Logger("requests")  # not in the tree of loggers: it has no handlers
_silent.addHandler(logging.NullHandler())

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageSite:
    """Routes on one address; ``refusal`` says why a request is not served, empty where it is."""

    def __init__(
        self,
        routes: Iterable[web.RouteDef],
        refusal: Callable[[web.Request], str],
        on_error: Callable[[Exception], None],
    ) -> None:
        app = web.Application(middlewares=[_answering(refusal, on_error)])
        app.add_routes(routes)
        self._runner = web.AppRunner(
            app, access_log=None, logger=_silent, handle_signals=False, shutdown_timeout=_SHUTDOWN_S
        )
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which is a free one where 0 was given."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._client, host, port, reuse_address=True)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    def _client(self) -> asyncio.Protocol:
        serve = self._runner.server
        return serve() if serve is not None and len(serve.connections) < _MOST_CLIENTS else _Refused()


def _answering(refusal: Callable[[web.Request], str], on_error: Callable[[Exception], None]) -> Any:
    """What aiohttp calls around every handler."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if reason := refusal(request):
                return web.Response(status=403, text=f"{reason}\n")
            return await handler(request)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception as error:
            on_error(error)
            return web.Response(status=400, text=f"the request cannot be used: {type(error).__name__}\n")

    return answer


class _Refused(asyncio.Protocol):
    """Closes a connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close it."""
        transport.abort()  # type: ignore[attr-defined]
