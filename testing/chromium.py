"""Drives a headless Chromium by its DevTools protocol: opens pages, acts like a hand, looks."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from websockets.sync.client import connect
from websockets.sync.connection import Connection

# Chromium has no network: names that end with .example lead to this machine, all others nowhere.
OPTIONS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP *.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-port=0",
)
WAIT_SECONDS: Final = 120
LARGEST_ANSWER: Final = 2**28


class PageError(Exception):
    """The page or the browser has refused a request."""


class Page:
    """One page in the browser."""

    def __init__(self, socket: Connection) -> None:
        """Take a connection to the page's target."""
        self._socket = socket
        self._numbers = itertools.count(1)
        # What the page's console and policy have reported.
        self.complaints: list[str] = []

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its answer."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            told = json.loads(self._socket.recv(timeout=WAIT_SECONDS))
            if told.get("id") == number:
                if "error" in told:
                    raise PageError(f"{method}: {told['error']['message']}")
                result: dict[str, Any] = told["result"]
                return result
            self._note(told)

    def _note(self, told: dict[str, Any]) -> None:
        if told.get("method") == "Runtime.exceptionThrown":
            details = told["params"]["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", str(details)))
        if told.get("method") == "Log.entryAdded":
            self.complaints.append(told["params"]["entry"]["text"])

    def evaluate(self, script: str) -> Any:
        """Return the value of a script; a promise is waited for."""
        done = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            raise PageError(str(done["exceptionDetails"].get("exception", done)))
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a script returns a true value."""
        end = time.monotonic() + WAIT_SECONDS
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise PageError(f"not after {WAIT_SECONDS} s: {condition}; {self.complaints}")
            time.sleep(0.03)

    def open(self, address: str) -> None:
        """Open an address."""
        self.send("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def resize(self, width: int, height: int, ratio: float = 1) -> None:
        """Give the page another size."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=ratio,
            mobile=False,
        )

    def prefer(self, scheme: str) -> None:
        """Say that the user prefers "light" or "dark" pages."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.send("Emulation.setEmulatedMedia", features=[feature])

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Send a mouse event: mousePressed, mouseReleased, mouseMoved or mouseWheel."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        """Click with the left button."""
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Type a text into what has the focus."""
        self.send("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press a key: a name such as Enter, or one character."""
        codes = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40, "Tab": 9}
        code = codes.get(key, ord(key[0].upper()))
        more = {"key": key, "windowsVirtualKeyCode": code}
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **more, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **more)

    def screenshot(self, path: Path) -> None:
        """Write what the page shows as PNG."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))


@contextmanager
def running_chromium(program: Path, profile: Path) -> Iterator[Page]:
    """Run a browser with one page; ``profile`` is a folder of its own."""
    command = [str(program), *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
        try:
            with connect(
                _page_address(profile, browser), max_size=LARGEST_ANSWER, proxy=None
            ) as socket:
                page = Page(socket)
                for domain in ("Page", "Runtime", "Log"):
                    page.send(f"{domain}.enable")
                yield page
        finally:
            browser.terminate()
            browser.wait(WAIT_SECONDS)


def _page_address(profile: Path, browser: subprocess.Popen[bytes]) -> str:
    """Return the address of the page, from the port that the browser writes into its profile."""
    told, end = profile / "DevToolsActivePort", time.monotonic() + WAIT_SECONDS
    while not (told.exists() and told.read_text().count("\n")):
        if browser.poll() is not None or time.monotonic() > end:
            raise PageError("Chromium did not start")
        time.sleep(0.05)
    port, path = told.read_text().splitlines()
    with connect(f"ws://127.0.0.1:{port}{path}", proxy=None) as socket:
        control = Page(socket)
        targets = control.send("Target.getTargets")["targetInfos"]
    (target,) = [one for one in targets if one["type"] == "page"]
    return f"ws://127.0.0.1:{port}/devtools/page/{target['targetId']}"
