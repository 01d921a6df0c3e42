"""Requests that nobody sends by mistake: each gets one answer, nothing is printed, and the page is still served."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from svfm_ros.web import page_site
from svfm_ros.web.live_server import LiveServer
from svfm_ros.web.live_state import LatestState
from svfm_ros.web.page_site import PageSite

HOST = "127.0.0.1"


def request(path: str = "/", host: str = HOST, more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n".encode("latin-1")


BAD = {
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": request(more="Host: evil.example\r\n"),
    "a host of 9 kB": request(host="a" * 9000),
    "an address of 100 kB": request("/" + "a" * 100_000),
    "bytes that are no text": bytes(range(256)) * 4,
    "HTTP 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a length below zero": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\nx",
    "a length above all": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\nx",
    "a chunk of no length": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    "a token in another script": request("/?token=%C3%A9"),
    "a token that is no text": request("/?token=%ff"),
    "a folder above": request("/../../etc/passwd"),
    "a folder above, encoded": request("/%2e%2e/%2e%2e/etc/passwd"),
    "no upgrade": request("/live?token=secret"),
}


@pytest.fixture
def server() -> Iterator[LiveServer]:
    made = LiveServer("PAGE", LatestState(), lambda _: None, host=HOST, port=0, token="secret", rate_hz=10.0)
    yield made
    made.close()


def answer(port: int, data: bytes) -> bytes:
    with socket.create_connection((HOST, port), timeout=30) as client:
        client.sendall(data)
        parts = []
        while part := client.recv(4096):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_answered_and_not_printed(
    server: LiveServer, name: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert answer(server.port, BAD[name]).split(b" ")[1] in (b"400", b"403", b"404")
    assert b"PAGE" in answer(server.port, request("/?token=secret"))
    assert capfd.readouterr().err == ""
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


class Refuser:
    """A page whose questions cannot be used."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.asked = 0
        self.state = LatestState(self.errors.append)
        self.server = LiveServer("", self.state, self._ask, host=HOST, port=0, token="", rate_hz=10.0)

    def _ask(self, question: dict[str, Any]) -> None:
        self.asked += 1
        if "what_if" in question:
            raise OverflowError("too large")


def test_no_message_of_a_page_ends_its_connection() -> None:
    asked = Refuser()

    async def talk() -> None:
        address = f"http://{HOST}:{asked.server.port}/live"
        async with aiohttp.ClientSession() as session, session.ws_connect(address) as page:
            for text in ("[" * 90_000, '{"a":' * 15_000, "9" * 9000, "[1]", '{"what_if": 3}', '{"pause": true}'):
                await page.send_str(text)
            while asked.asked < 2:
                await asyncio.sleep(0.01)
            assert not page.closed

    try:
        asyncio.run(talk())
    finally:
        asked.server.close()
    assert [type(error) for error in asked.errors] == [OverflowError]


def test_clients_beyond_the_limit_get_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_site, "_MOST_CLIENTS", 3)

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def fill() -> None:
        site = PageSite([web.get("/", hello)], lambda _: "", lambda _: None)
        port = await site.start(HOST, 0)
        idle = [await asyncio.open_connection(HOST, port) for _ in range(3)]
        for _, writer in idle:
            writer.write(b"GET /")  # and no more
        while len(site._runner.server.connections) < 3:  # type: ignore[union-attr]
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection(HOST, port)
        with contextlib.suppress(ConnectionError):  # closed with a reset, or without
            assert await reader.read() == b""
        for _, one in [*idle, (reader, writer)]:
            one.close()
        while site._runner.server.connections:  # type: ignore[union-attr]
            await asyncio.sleep(0.01)
        async with aiohttp.ClientSession() as session, session.get(f"http://{HOST}:{port}/") as got:
            assert await got.text() == "hello"
        await site.close()

    asyncio.run(fill())
