"""The web page of docs/wire.md in Chromium: MQTT.js over WebSocket, and which pages may connect."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from testing.chromium import Page, running_chromium
from tests.scenes.page_blocks import with_ports
from tests.servers.npm_packages import require_mqtt_js
from tests.servers.paho_client import paho_client
from tests.servers.running_broker import RunningBroker, running_broker, until

MONTE_CARLO, LARVOTTO = "4000000005986438", "4000000005986437"
REFUSED = 'spaps_connections_refused_total{cause="origin"}'


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Write nothing."""


class Site(NamedTuple):
    """A web server, and the folder that it serves."""

    port: int
    folder: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A web server with an empty folder; in the browser each name below .example leads to it."""
    folder = tmp_path_factory.mktemp("site")
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Site(server.server_port, folder)
        server.shutdown()


@pytest.fixture(scope="module")
def broker(
    site: Site, monaco_world: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    config = f"""
    [broker]
    websocket_origins = ["http://map.example:{site.port}"]
    [broker.listeners.web]
    type = "ws"
    bind = "127.0.0.1:0"
    """
    options = ("--world", monaco_world, "--allow-anonymous", "--http", "0")
    with running_broker(tmp_path_factory.mktemp("web"), *options, config=config) as running:
        yield running


@pytest.fixture(scope="module")
def page_file(site: Site, broker: RunningBroker, repository: Path) -> Path:
    """The page as a reader would save it, beside MQTT.js."""
    page = (repository / "docs" / "wire.md").read_text("utf-8")
    [text] = re.findall(r"^```html\n(.*?)^```\n", page, re.MULTILINE | re.DOTALL)
    path = site.folder / "page.html"
    path.write_text(with_ports(text, {"8085": broker.ports["web"]}), "utf-8")
    shutil.copy(require_mqtt_js() / "mqtt" / "dist" / "mqtt.min.js", site.folder)
    return path


@pytest.fixture(scope="module")
def browser(
    program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Page]:
    with running_chromium(program("chromium"), tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.mark.parametrize("host", ["127.0.0.1", "map.example"])
def test_a_page_gets_the_messages_of_its_neighborhood(
    host: str, site: Site, page_file: Path, broker: RunningBroker, browser: Page
) -> None:
    browser.open(f"http://{host}:{site.port}/{page_file.name}")
    browser.wait("document.title !== 'connecting'")
    assert browser.evaluate("document.title") == "subscribed"
    with paho_client(broker.port) as publisher:
        publisher.publish("web/jam", "in Monte-Carlo", ("peid", MONTE_CARLO))
        publisher.publish("web/works", "in Larvotto", ("peid", LARVOTTO))
    browser.wait("document.querySelector('#messages li') !== null")
    # A message is sent to one page before the next is read: the first one would stand before it.
    assert browser.evaluate("document.getElementById('messages').innerText") == (
        f"web/works, entity {LARVOTTO}: in Larvotto"
    )
    browser.evaluate("client.end(true)")
    broker.wait_until_quiet()


@pytest.mark.parametrize("place", ["other.example", "file"])
def test_a_page_of_another_origin_is_refused(
    place: str, site: Site, page_file: Path, broker: RunningBroker, browser: Page
) -> None:
    before = broker.metric(REFUSED)
    address = f"http://{place}:{site.port}/{page_file.name}"
    browser.open(page_file.as_uri() if place == "file" else address)
    until(lambda: broker.metric(REFUSED) > before, "a refused connection")
    assert browser.evaluate("document.title") == "connecting"
    assert broker.metric("spaps_neighborhoods") == 0
    browser.evaluate("client.end(true)")
