"""Serves a page and its WebSocket from a thread of its own.

Each page gets the latest state at most ``rate_hz`` times a second, and only after it has drawn the frame before: a page
that is hidden or slow gets fewer frames, never old ones. A page that no longer reads is dropped. Whoever changes the
state never waits for a page.

On the loopback interface anybody at this machine may look; requests from pages of other origins are refused. On any
other address the token in the printed URL is needed.
"""

import asyncio
import contextlib
import hmac
import json
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import WSMsgType, web

from svfm_ros.errors import UsageError
from svfm_ros.web.live_state import LatestState
from svfm_ros.web.page_address import is_loopback, page_address
from svfm_ros.web.page_site import PageSite

__all__ = ["LiveServer"]

_START_S = 10.0
_SEND_S = 5.0  # a page that does not take a frame within this time is dropped
_HEARTBEAT_S = 6.0  # and one that does not answer a ping
_MOST_UNSEEN = 2  # frames that may be on their way to a page
_MOST_PAGES = 50
_MOST_BYTES = 100_000  # of a message from a page
_OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

Ask = Callable[[dict[str, Any]], None]


class LiveServer:
    """One page for any number of browsers. ``ask`` gets what people ask for on the page, in the server's thread."""

    def __init__(
        self, page: str, state: LatestState, ask: Ask, *, host: str, port: int, token: str, rate_hz: float
    ) -> None:
        if not is_loopback(host) and not token:
            raise UsageError(f"expected a token for a page at {host}, which others can reach")
        self._page, self._state, self._ask = page, state, ask
        self._host, self._token, self._period_s = host, token, 1.0 / rate_hz
        self.port = port
        self.pages = self.dropped = 0
        self._loop = asyncio.new_event_loop()
        self._changed: set[asyncio.Event] = set()
        self._wake_pending = False
        self._closing = asyncio.Event()
        self._started = threading.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="live page", daemon=True)
        self._thread.start()
        if not self._started.wait(_START_S) or self._problem is not None:
            reason = self._problem.strerror if isinstance(self._problem, OSError) else self._problem
            raise UsageError(f"the live page cannot use {host}:{port}: {reason or 'no answer'}")
        state.on_change = self._wake

    @property
    def address(self) -> str:
        """The URL to open in a browser."""
        return page_address(self._host, self.port, self._token)

    def close(self) -> None:
        """Close all pages and end the thread."""
        self._state.on_change = lambda: None
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(_START_S)

    # In the server's thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:
            self._problem = error
        finally:
            self._started.set()
            self._loop.close()

    async def _serve(self) -> None:
        routes = [web.get("/", self._get_page), web.get("/live", self._live)]
        site = PageSite(routes, self._refusal, self._state.on_error)
        try:
            self.port = await site.start(self._host, self.port)
            self._started.set()
            await self._closing.wait()
            for event in self._changed:
                event.set()
        finally:
            await site.close()

    def _wake(self) -> None:
        """Called by whoever changes the state, from any thread; returns at once."""
        if not self._wake_pending:
            self._wake_pending = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake_pages)

    def _wake_pages(self) -> None:
        self._wake_pending = False
        for event in self._changed:
            event.set()

    def _refusal(self, request: web.Request) -> str:
        """Why a request is not served; empty where it is."""
        if self._token:
            given = request.query.get("token", "").encode(errors="surrogateescape")
            return "" if hmac.compare_digest(given, self._token.encode()) else "the token is missing"
        name = request.host.rpartition(":")[0] or request.host
        if name not in (*_OWN_NAMES, self._host):  # a foreign name that resolves to this machine
            return f"expected a request to this machine, got one to {name}"
        return ""

    async def _get_page(self, _request: web.Request) -> web.Response:
        return web.Response(text=self._page, content_type="text/html", headers=_HEADERS)

    async def _live(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Origin", f"http://{request.host}") != f"http://{request.host}":
            return web.Response(status=403, text="a page of another origin\n")
        if self.pages >= _MOST_PAGES:
            return web.Response(status=503, text=f"{_MOST_PAGES} pages are open already\n")
        socket = web.WebSocketResponse(heartbeat=_HEARTBEAT_S, compress=False, max_msg_size=_MOST_BYTES, timeout=1.0)
        await socket.prepare(request)
        page = _OpenPage(socket)
        self._changed.add(page.changed)
        self.pages += 1
        sending = asyncio.ensure_future(self._send(page, request))
        try:
            await self._receive(page)
        finally:
            self.pages -= 1
            self._changed.discard(page.changed)
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await sending
        return socket

    async def _receive(self, page: "_OpenPage") -> None:
        async for message in page.socket:
            if message.type is not WSMsgType.TEXT:
                continue
            try:
                asked = json.loads(message.data)
            except (ValueError, RecursionError):
                continue
            if not isinstance(asked, dict):
                continue
            if isinstance(asked.get("seen"), int):
                page.seen = max(page.seen, asked["seen"])
                page.changed.set()
            else:
                self._ask_safely(asked)

    def _ask_safely(self, asked: dict[str, Any]) -> None:
        try:
            self._ask(asked)
        except Exception as error:  # what one page asks must not end its connection
            self._state.on_error(error)

    async def _send(self, page: "_OpenPage", request: web.Request) -> None:
        """Send frames until the page or the server is closed."""
        version = 0
        try:
            while not self._closing.is_set():
                await page.changed.wait()
                page.changed.clear()
                if self._state.version <= version or page.sent - page.seen >= _MOST_UNSEEN:
                    continue
                began_s = time.monotonic()
                frame, version = self._state.frame_since(version)
                await _within(_SEND_S, page.socket.send_bytes(frame))
                page.sent += 1
                await asyncio.sleep(max(0.0, self._period_s - (time.monotonic() - began_s)))
                page.changed.set()  # look again: the state may have changed meanwhile
            await page.socket.close()
        except (TimeoutError, ConnectionError):
            self.dropped += 1
            if request.transport is not None:
                request.transport.abort()


class _OpenPage:
    """The connection to one page: frames sent, and frames it said it has drawn."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self.socket = socket
        self.changed = asyncio.Event()
        self.changed.set()
        self.sent = self.seen = 0


async def _within(seconds: float, work: Awaitable[None]) -> None:
    async with asyncio.timeout(seconds):
        await work
