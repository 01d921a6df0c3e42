"""A real chromium without a window, driven over its DevTools protocol."""

import asyncio
import base64
import json
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import aiohttp
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE_S = 400.0  # a loaded machine is slow to start processes

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium")


class Browser:
    """One browser process; ``open`` returns a page."""

    def __init__(self):
        self._folder = tempfile.mkdtemp(prefix="chromium-")
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run"]
        command = [CHROMIUM, *flags, f"--user-data-dir={self._folder}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self._wait_for_port()
        self._session = self.run(self._make_session())

    def _wait_for_port(self):
        file, end_s = Path(self._folder) / "DevToolsActivePort", time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s and self._process.poll() is None:
            if file.is_file() and (lines := file.read_text().splitlines()):
                return int(lines[0])
            time.sleep(0.05)
        raise AssertionError("chromium did not start")

    async def _make_session(self):
        return aiohttp.ClientSession()

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def open(self, url, width=1280, height=800, phone=False):
        return self.run(self._open(url, width, height, phone))

    async def _open(self, url, width, height, phone):
        base = f"http://127.0.0.1:{self.port}"
        async with self._session.put(f"{base}/json/new?about:blank") as answer:
            target = json.loads(await answer.text())
        socket = await self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)
        page = Page(self, socket, target["id"])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        await page.send("Emulation.setDeviceMetricsOverride", **size)
        await page.send("Page.enable")
        await page.send("Page.navigate", url=url)
        return page

    def close(self):
        self.run(self._session.close())
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        shutil.rmtree(self._folder, ignore_errors=True)


class Page:
    """One tab."""

    def __init__(self, browser, socket, target):
        self._browser, self._socket, self._target = browser, socket, target
        self._number = 0
        self.events = []

    async def send(self, method, **params):
        self._number += 1
        number = self._number
        await self._socket.send_json({"id": number, "method": method, "params": params})
        while True:
            answer = await self._socket.receive_json(timeout=PATIENCE_S)
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def call(self, method, **params):
        return self._browser.run(self.send(method, **params))

    def eval(self, expression):
        """The value of a JavaScript expression; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found.get("exceptionDetails")
        return found["result"].get("value")

    def wait_for(self, expression, patience_s=PATIENCE_S):
        """Wait until a JavaScript expression is true; returns its value."""
        end_s, last = time.monotonic() + patience_s, None
        while time.monotonic() < end_s:
            try:
                last = self.eval(expression)
            except AssertionError as error:  # the page may still be loading
                last = error
            if last and not isinstance(last, AssertionError):
                return last
            time.sleep(0.05)
        raise AssertionError(f"not within {patience_s:.0f} s: {expression}: {last!r}")

    def screenshot(self, path, whole=False):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path):
        made = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        Path(path).write_bytes(base64.b64decode(made["data"]))

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, code=None):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, text=key if len(key) == 1 else "")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def close(self):
        self._browser.run(self._close())

    async def _close(self):
        await self._socket.close()
        async with self._browser._session.get(f"http://127.0.0.1:{self._browser.port}/json/close/{self._target}"):
            pass
