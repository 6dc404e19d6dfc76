"""GET /entities of a running broker: the same search as ``spaps find``, in a process of its own."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import pytest

from broker.access.passwords import hash_password
from broker.resolver.helper_process import HelperProcess
from broker.resolver.search_process import SearchLimits, SearchProcess, SearchUnavailableError
from tests.scenes.searched_town import key_of, write_town
from tests.servers.running_broker import PATIENCE, RunningBroker, running_broker, until
from world.search.entity_search import EntityQuery, find_entities
from world.search.places import Place
from world.search.searched_world import SearchedWorld

LARGEST = str(2**63 - 1)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_town(tmp_path_factory.mktemp("town") / "world")


@pytest.fixture(scope="module")
def broker(world: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("broker")
    arguments = ("--world", world, "--allow-anonymous", "--redis", "none", "--http", "0")
    with running_broker(folder, *arguments) as running:
        yield running


def entities(broker: RunningBroker, **parameters: Any) -> Any:
    """The answer of a broker whose pages need no login."""
    return answered(lambda: broker.page(f"/entities?{urlencode(parameters)}"))


def answered(visit: Callable[[], str | bytes]) -> Any:
    """The answer; on a busy machine the process may need more than one visit to load the world."""
    while True:
        try:
            return json.loads(visit())
        except HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE or b"try again" not in error.read():
                raise


def refused(broker: RunningBroker, query: str) -> tuple[int, str]:
    with pytest.raises(HTTPError) as caught:
        broker.page(f"/entities{query}")
    return caught.value.code, caught.value.read().decode()


def test_it_finds_what_the_command_finds(broker: RunningBroker, world: str) -> None:
    opened = SearchedWorld.open(world)
    place = Place(13.39, 52.34)
    for parameters, query in [
        ({"text": "ÉTÉ"}, EntityQuery("ÉTÉ")),
        ({"category": "food/#", "limit": 1}, EntityQuery(category="food/#", limit=1)),
        ({"near": "13.39,52.34", "limit": 3}, EntityQuery(near=place, limit=3)),
    ]:
        assert entities(broker, **parameters) == find_entities(opened, query).as_json()


def test_peids_are_text_with_all_their_digits(broker: RunningBroker) -> None:
    (found,) = entities(broker, text="last stop")["entities"]
    assert found["peid"] == LARGEST
    assert found["key"] == key_of(int(LARGEST))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "nothing to look for"),
        ("?", "nothing to look for"),
        ("?text", "not a list of NAME=VALUE"),
        ("?text=%ff", "not a list of NAME=VALUE in UTF-8"),
        ("?" + "&".join(["text=a"] * 20), "not a list of NAME=VALUE"),
        ("?colour=red", "unknown parameter 'colour'"),
        ("?text=a&limit=2000", "from 1 to 1000"),
        ("?near=43.7,97.4", "longitude comes first"),
        ("?category=food", "food/# has everything below it"),
        ("?category=" + quote("#/a"), "is wrong"),
    ],
)
def test_a_bad_request_is_one_clear_line(broker: RunningBroker, query: str, said: str) -> None:
    code, text = refused(broker, query)
    assert code == 400
    assert said in text
    assert text.count("\n") == 1


def test_it_needs_the_login_of_the_other_pages(world: str, tmp_path: Path) -> None:
    (tmp_path / "users").write_text(f"monitor:{hash_password('secret')}\n")
    config = f'[broker]\npassword_file = "{tmp_path}/users"\nhttp_users = ["monitor"]\n'
    arguments = ("--world", world, "--redis", "none", "--http", "0.0.0.0:0")
    with running_broker(tmp_path, *arguments, config=config) as broker:
        assert refused(broker, "?text=ete")[0] == 401
        url = f"http://127.0.0.1:{broker.ports['http']}/entities?text=ete"
        login = base64.b64encode(b"monitor:secret").decode()
        request = Request(url, headers={"Authorization": f"Basic {login}"})
        assert answered(lambda: urlopen(request).read())["count"] == 7  # noqa: S310  our own broker


def test_a_killed_search_process_is_started_again(world: str, tmp_path: Path) -> None:
    arguments = ("--world", world, "--allow-anonymous", "--redis", "none", "--http", "0")
    with running_broker(tmp_path, *arguments) as broker:
        assert broker.children(b"search_worker") == []
        before = entities(broker, text="ete")
        (process,) = broker.children(b"search_worker")
        # The broker itself has not loaded what searches.
        assert "libarrow" not in Path(f"/proc/{broker.process.pid}/maps").read_text()
        assert "libarrow" in Path(f"/proc/{process}/maps").read_text()
        os.kill(process, signal.SIGKILL)
        until(lambda: process_state(process) in ("Z", ""), "the end of the process")
        assert entities(broker, text="ete") == before


def process_state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


def test_without_a_world_there_is_no_answer_now(tmp_path: Path) -> None:
    arguments = ("--memberships", "none", "--world", str(tmp_path / "none"), "--http", "0")
    with running_broker(tmp_path, *arguments, "--allow-anonymous") as broker:
        while "try again" in (answer := refused(broker, "?text=a"))[1]:
            pass
    assert answer[0] == 503
    assert "no world at" in answer[1]


def test_searches_that_wait_for_a_world_that_cannot_be_loaded_are_answered_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with a try of its own, visitors who come again would never get the answer."""
    started = []
    start = HelperProcess.start

    async def counted(*arguments: str) -> HelperProcess:
        started.append(arguments)
        return await start(*arguments)

    monkeypatch.setattr(HelperProcess, "start", counted)

    async def scenario() -> list[str]:
        search = SearchProcess(str(tmp_path / "none"), lambda: 0, SearchLimits(PATIENCE))
        asked = [search.ask({"text": ["ete"]}) for _ in range(4)]
        said = [str(one) for one in await asyncio.gather(*asked, return_exceptions=True)]
        with pytest.raises(SearchUnavailableError, match="no world at"):
            await search.ask({"text": ["ete"]})
        await search.stop()
        return said

    said = asyncio.run(scenario())
    assert len(said) == 4
    assert all("no world at" in one for one in said)
    # One for the four of them, and one for who came later: there might be a world by then.
    assert len(started) == 2


def test_searches_wait_in_bounded_number_and_time(world: str) -> None:
    async def scenario() -> list[str]:
        limits = SearchLimits(visitor_seconds=0.0, waiting=2)
        search = SearchProcess(world, lambda: 0, limits)
        asked = [search.ask({"text": ["ete"]}) for _ in range(4)]
        said = [str(one) for one in await asyncio.gather(*asked, return_exceptions=True)]
        await search.stop()
        return said

    said = asyncio.run(scenario())
    assert sum("takes longer" in one for one in said) == 2
    assert sum("too many searches" in one for one in said) == 2


def test_the_process_serves_the_version_in_force_and_ends_when_idle(
    world: str,
) -> None:
    async def scenario() -> None:
        version = 1
        limits = SearchLimits(visitor_seconds=PATIENCE, idle_seconds=0.1)
        search = SearchProcess(world, lambda: version, limits)
        assert (await search.ask({"text": ["ete"]}))["result"]["version"] == 1
        version = 9
        with pytest.raises(SearchUnavailableError, match="has no version 9"):
            await search.ask({"text": ["ete"]})
        version = 1
        assert (await search.ask({"text": ["ete"]}))["result"]["count"] == 7
        while search._process is not None:  # noqa: ASYNC110 - it has no event for tests
            await asyncio.sleep(0.01)
        assert (await search.ask({"text": ["ete"]}))["result"]["count"] == 7
        await search.stop()

    asyncio.run(scenario())
