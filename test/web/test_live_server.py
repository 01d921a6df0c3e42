"""The server of the live page: who may look, what slow pages get, who is dropped; and the page in a real browser."""

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from browser import PATIENCE_S, Browser, needs_browser

from svfm_ros.errors import UsageError
from svfm_ros.types import OccupancyGrid, Pose2
from svfm_ros.web import live_server
from svfm_ros.web.live_server import LiveServer
from svfm_ros.web.live_state import LatestState, json_bytes, map_bytes, path_bundle_bytes, polyline_bytes
from svfm_ros.web.page_address import free_port
from svfm_ros.web.pages import live_page


class Served:
    """A server with its state, and what people asked for."""

    def __init__(self, port: int = 0, token: str = "", rate_hz: float = 50.0, host: str = "127.0.0.1") -> None:
        self.state = LatestState()
        self.asked: list[dict[str, Any]] = []
        self.was_asked = threading.Event()
        self.server = LiveServer(live_page(), self.state, self._ask, host=host, port=port, token=token, rate_hz=rate_hz)

    def _ask(self, question: dict[str, Any]) -> None:
        self.asked.append(question)
        self.was_asked.set()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.server.close()


def get(url: str, **headers: str) -> int:
    async def fetch() -> int:
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
            return answer.status

    return asyncio.run(fetch())


def test_the_page_is_one_file_that_needs_no_server_but_its_own(served: Served) -> None:
    page = live_page()
    assert get(served.server.address) == 200
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "").replace("https:", "")
    assert "connect-src 'self'" in page


def test_other_origins_and_names_are_refused(served: Served) -> None:
    assert get(f"{served.server.address}live", Origin="http://evil.example") == 403
    assert get(served.server.address, Host="evil.example") == 403


def test_an_address_that_others_reach_needs_a_token() -> None:
    with pytest.raises(UsageError, match="token"):
        LiveServer("", LatestState(), lambda _: None, host="0.0.0.0", port=0, token="", rate_hz=1.0)
    served = Served(token="secret", host="0.0.0.0")
    try:
        bare = f"http://127.0.0.1:{served.server.port}/"
        assert get(bare) == get(f"{bare}?token=guess") == get(f"{bare}live") == 403
        assert get(f"{bare}?token=secret") == 200
        assert served.server.address.endswith("?token=secret")
    finally:
        served.server.close()


def test_a_port_that_is_taken_is_said_to_be() -> None:
    served = Served()
    try:
        assert free_port("127.0.0.1", served.server.port) != served.server.port
        with pytest.raises(UsageError, match=str(served.server.port)):
            Served(port=served.server.port)
    finally:
        served.server.close()


def frames_of(served: Served, act: Any) -> Any:
    async def look() -> Any:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{served.server.address}live") as page:
            return await act(page)

    return asyncio.run(look())


def test_a_page_that_has_not_drawn_gets_no_backlog_but_the_latest_state(served: Served) -> None:
    async def act(page: aiohttp.ClientWebSocketResponse) -> list[bytes]:
        got = []
        for number in range(2):  # as many as may be on their way
            served.state.put("a", lambda number=number: bytes([number]))  # type: ignore[misc]
            got.append(await page.receive_bytes(timeout=PATIENCE_S))
        for number in range(2, 100):
            served.state.put("a", lambda number=number: bytes([number]))  # type: ignore[misc]
        with pytest.raises(asyncio.TimeoutError):
            await page.receive_bytes(timeout=0.3)
        await page.send_str('{"seen": 2}')
        got.append(await page.receive_bytes(timeout=PATIENCE_S))
        return got

    assert [frame[-1] for frame in frames_of(served, act)] == [0, 1, 99]


def test_ten_pages_get_the_same_frame(served: Served) -> None:
    served.state.put("a", lambda: b"hello")

    async def look() -> set[bytes]:
        async with aiohttp.ClientSession() as session:
            pages = [await session.ws_connect(f"{served.server.address}live") for _ in range(10)]
            return {await page.receive_bytes(timeout=PATIENCE_S) for page in pages}

    assert len(asyncio.run(look())) == 1


def test_nonsense_from_a_page_does_no_harm(served: Served) -> None:
    async def act(page: aiohttp.ClientWebSocketResponse) -> None:
        for text in ("", "null", "[1]", '{"seen": "x"}', "{"):
            await page.send_str(text)
        await page.send_bytes(b"\0\1")
        await page.send_str(json.dumps({"what_if": 2}))
        assert await asyncio.to_thread(served.was_asked.wait, PATIENCE_S)

    frames_of(served, act)
    assert served.asked[-1] == {"what_if": 2}


def test_a_client_that_reads_nothing_is_dropped(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_server, "_SEND_S", 0.3)
    request = (
        f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{served.server.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    served.state.put("a", lambda: bytes(50_000_000))  # more than the kernel's buffers hold
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", served.server.port))
        client.sendall(request.encode())
        wait_until(lambda: served.server.dropped == 1)
    wait_until(lambda: served.server.pages == 0)


def wait_until(true: Any) -> None:
    waiter = threading.Event()
    for _ in range(round(PATIENCE_S / 0.02)):
        if true():
            return
        waiter.wait(0.02)
    raise AssertionError("it did not happen")


# In a real browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


def put_scene(state: LatestState, x: float = 1.0, hour: float = 14.0, bend: float = 0.0) -> None:
    """A room of 6 by 4 metres with two places, a walker at (x, 2) and forty paths."""
    prob = np.zeros((40, 60), dtype=np.float32)
    prob[[0, -1]] = prob[:, [0, -1]] = 1.0
    state.put("m", lambda: map_bytes(OccupancyGrid(prob, 0.1, Pose2())))
    line = polyline_bytes(np.linspace([0.5, 2.0], [x, 2.0], 20))
    state.put("w", lambda: struct.pack("<ffff", x, 2.0, 0.0, hour) + line)
    state.put("s", lambda: polyline_bytes([[0.1, 1.0], [5.9, 1.0]]))
    times = np.linspace(0.0, 4.0, 11)
    paths = np.stack([np.stack([x + times, 2.0 + (bend + 0.01 * n) * times], axis=1) for n in range(40)])
    state.put("f", lambda: path_bundle_bytes(paths, np.arange(40) % 2))
    places = [
        {"name": "kitchen", "x": 5.0, "y": 3.0, "radius": 0.5, "colour": "#0072b2"},
        {"name": "front_door", "x": 5.0, "y": 1.0, "radius": 0.5, "colour": "#d55e00"},
    ]
    state.put("p", lambda: json_bytes(places))
    forecast = {"known": True, "reason": "", "entropy": 0.6, "unfamiliar": 0.1, "walks": 9}
    names = ["kitchen", "front_door", "elsewhere"]
    state.put("j", lambda: json_bytes({**forecast, "names": names, "shares": [0.7, 0.3, 0.0]}))
    trend = np.array([[-60.0, 1.0, 0.1], [-30.0, 0.8, 0.2], [0.0, 0.6, 0.1]], dtype="<f4")
    state.put("t", lambda: trend.tobytes())
    state.put("n", lambda: json_bytes(NEWS))


NEWS: dict[str, Any] = {
    "line": "the wearer is walking",
    "caption": "",
    "walks": "9 walks stored.",
    "training": 0.4,
    "what_if": None,
    "problem": "",
    "replay": {"position_s": 20.0, "length_s": 60.0, "rate": 2.0, "paused": False, "words": "0:20 of 1:00"},
    "nodes": [{"name": "slam_node", "level": 1, "words": "no scan for 5 s"}],
}
PICTURE = "document.getElementById('plan').toDataURL()"


@needs_browser
def test_the_page_shows_the_state_and_moves_with_it(served: Served, browser: Browser, tmp_path: Path) -> None:
    put_scene(served.state)
    page = browser.open(served.server.address)
    page.wait_for("now.map && document.querySelectorAll('#bars .bar').length === 3")
    page.wait_for("document.getElementById('trend').querySelectorAll('polyline').length === 2")
    assert page.eval("[...document.querySelectorAll('#trend .value')].map((v) => v.textContent)") == [
        "1.8 places",
        "10 %",
    ]
    assert page.eval("document.getElementById('likely').innerText.split(/\\s+/)") == ["kitchen", "70", "%"]
    texts = page.eval("[...document.querySelectorAll('#bars .bar:not([hidden])')].map((b) => b.textContent)")
    assert texts == ["kitchen70 %", "front door30 %"]
    assert page.eval("document.getElementById('sure').textContent").startswith("Fairly sure")
    assert "no scan for 5 s" in page.eval("document.getElementById('nodes').textContent")
    assert page.eval("document.getElementById('nodes').firstChild.className") == "warn"
    assert page.eval("document.getElementById('training-fill').getAttribute('aria-valuenow')") == "40"
    assert "kitchen 70 %" in page.eval("document.getElementById('plan').getAttribute('aria-label')")
    page.wait_for("document.getElementById('spoken').textContent.startsWith('Most likely kitchen')")
    before = page.eval(PICTURE)
    put_scene(served.state, x=2.0)
    page.wait_for("Math.abs(now.walker.x - 2) < 1e-6")
    page.wait_for(f"{PICTURE} !== {json.dumps(before)}")
    fan = page.eval("JSON.stringify([...now.paths.lines[0]])")
    put_scene(served.state, x=2.0, bend=-0.2)
    page.wait_for(f"JSON.stringify([...now.paths.lines[0]]) !== {json.dumps(fan)}")
    assert page.eval("document.body.classList.contains('night')") is False
    put_scene(served.state, hour=23.0)
    page.wait_for("document.body.classList.contains('night')")
    page.close()


@needs_browser
def test_two_texts_about_one_forecast_never_disagree(served: Served, browser: Browser) -> None:
    put_scene(served.state)
    page = browser.open(served.server.address)
    page.wait_for("document.getElementById('trend').querySelectorAll('polyline').length === 2")
    drawn = "trendDrawn = performance.now(); now.forecast.entropy = Math.log(2.5); show()"
    texts = "[document.getElementById('sure').textContent, document.querySelector('#trend .value').textContent]"
    sure, trend = page.eval(f"(() => {{ {drawn}; return {texts} }})()")
    assert "2.5 equally likely places" in sure
    assert trend == "2.5 places"
    page.close()


@needs_browser
def test_the_slider_the_keys_and_the_pause_ask(served: Served, browser: Browser) -> None:
    put_scene(served.state)
    page = browser.open(served.server.address)
    page.wait_for("now.news && !document.getElementById('replay').hidden")

    def asked(act: Any, expected: dict[str, Any]) -> None:
        act()
        wait_until(lambda: expected in served.asked)

    slide = "const s = document.getElementById('hour'); s.value = 5; s.dispatchEvent(new Event('input'))"
    asked(lambda: page.eval(f"(() => {{ {slide} }})()"), {"what_if": 5})
    page.wait_for("document.getElementById('whatif-hour').textContent === '05:00'")
    asked(lambda: page.press("ArrowRight"), {"what_if": 6})
    served.state.put("n", lambda: json_bytes({**NEWS, "what_if": 6.0}))  # as the forecaster says
    page.wait_for("now.news.what_if === 6 && document.getElementById('whatif-on').checked")
    asked(lambda: page.press(" ", "Space"), {"pause": True})
    asked(lambda: page.press("w", "KeyW"), {"what_if": None})
    page.eval(
        "(() => { const r = document.getElementById('rate'); r.value = 4; r.dispatchEvent(new Event('change')) })()"
    )
    wait_until(lambda: {"rate": 4} in served.asked)
    page.close()


@needs_browser
def test_space_belongs_to_the_control_that_has_the_focus(served: Served, browser: Browser) -> None:
    put_scene(served.state)
    page = browser.open(served.server.address)
    page.wait_for("now.news && !document.getElementById('replay').hidden")
    page.eval("document.getElementById('whatif-on').focus()")
    page.press(" ", "Space")
    wait_until(lambda: {"what_if": 2} in served.asked)
    assert not any("pause" in asked for asked in served.asked)
    page.close()


@needs_browser
def test_a_paused_replay_does_not_fade_but_a_lost_wearer_does(served: Served, browser: Browser) -> None:
    put_scene(served.state)
    page = browser.open(served.server.address)
    page.wait_for("now.walker && now.news")
    page.eval("now.poseAt = -1e6")
    page.wait_for("document.body.classList.contains('stale')")
    served.state.put("n", lambda: json_bytes({**NEWS, "replay": {**NEWS["replay"], "paused": True}}))
    page.wait_for(
        "!document.body.classList.contains('stale') && document.getElementById('line').textContent === 'paused'"
    )
    page.close()


@needs_browser
def test_what_is_told_to_a_screen_reader_has_names(served: Served, browser: Browser) -> None:
    put_scene(served.state)
    page = browser.open(served.server.address)
    page.wait_for("now.map && document.querySelectorAll('#bars .bar').length === 3")
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    told = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n.get("ignored")]
    controls = [(role, name) for role, name in told if role in ("button", "checkbox", "slider", "combobox", "image")]
    assert {role for role, _ in controls} == {"button", "checkbox", "slider", "combobox", "image"}
    assert all(name for _, name in controls), controls
    page.close()


@needs_browser
def test_a_path_is_drawn_until_it_leaves_the_place_it_leads_to(served: Served, browser: Browser) -> None:
    put_scene(served.state)
    page = browser.open(served.server.address)
    page.wait_for("now.places.length === 2")
    through = "Int16Array.from([0, 0, 100, 0, 200, 0, 300, 0, 400, 0])"
    drawn = f"[...untilLeaving({through}, {{ x: 2, y: 0, radius: 0.5 }})]"
    assert page.eval(drawn) == [0, 0, 100, 0, 200, 0]
    assert page.eval(f"untilLeaving({through}, {{ x: 9, y: 0, radius: 0.5 }}).length") == 10
    assert page.eval(f"untilLeaving({through}, undefined).length") == 10
    page.close()


@needs_browser
def test_a_model_without_places_says_so(served: Served, browser: Browser) -> None:
    put_scene(served.state)
    served.state.put("p", lambda: json_bytes([]))
    forecast = {"known": True, "reason": "", "entropy": 0.0, "unfamiliar": 0.1, "walks": 9}
    served.state.put("j", lambda: json_bytes({**forecast, "names": ["elsewhere"], "shares": [1.0]}))
    page = browser.open(served.server.address)
    page.wait_for("document.getElementById('sure').textContent.startsWith('No places are known yet')")
    assert page.eval("document.getElementById('likely').textContent") == "not known yet"
    assert page.eval("document.querySelectorAll('#bars .bar:not([hidden])').length") == 0
    page.close()


@needs_browser
def test_a_page_connects_again_after_the_server_was_away(browser: Browser) -> None:
    served = Served()
    port = served.server.port
    put_scene(served.state, x=1.0)
    page = browser.open(served.server.address)
    page.wait_for("now.walker && now.walker.x === 1")
    served.server.close()
    page.wait_for("document.body.dataset.connected === 'ended'")
    page.eval("show()")
    assert page.eval("byId('line').textContent").startswith("the program has ended")
    again = Served(port=port)
    try:
        put_scene(again.state, x=3.0)
        page.wait_for("document.body.dataset.connected === 'yes' && now.walker.x === 3")
        put_scene(again.state, x=4.0)
        page.wait_for("now.walker.x === 4")  # frames are counted anew
    finally:
        page.close()
        again.server.close()


@needs_browser
def test_the_plan_shows_a_wearer_outside_of_the_map_and_fits_the_map_again(served: Served, browser: Browser) -> None:
    put_scene(served.state)
    page = browser.open(served.server.address)
    page.wait_for("now.map && plan.bounds && plan.bounds[2] < 8")
    inside = page.eval("plan.bounds.join()")
    put_scene(served.state, x=20.0)
    page.wait_for("plan.bounds[2] > 21.5")
    put_scene(served.state, x=2.0)
    page.wait_for(f"plan.bounds.join() === {json.dumps(inside)}")
    page.close()


@needs_browser
def test_it_fits_a_phone(served: Served, browser: Browser) -> None:
    put_scene(served.state)
    page = browser.open(served.server.address, 390, 844, phone=True)
    page.wait_for("now.map && document.querySelectorAll('#bars .bar').length === 3")
    assert page.eval("document.documentElement.scrollWidth") <= 390
    assert page.eval("document.getElementById('plan').getBoundingClientRect().width") > 330
    assert page.eval("document.getElementById('plan').getBoundingClientRect().height") > 220
    assert page.eval("[...document.querySelectorAll('button')].every((b) => b.getBoundingClientRect().height >= 44)")
    page.close()
