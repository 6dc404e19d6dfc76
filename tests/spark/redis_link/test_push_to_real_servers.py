"""The push on Spark to every kind of server: each executor finds its way by the URL alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from jobs.pipeline import spark_push
from jobs.pipeline.spark_push import push_generation
from redis_link.connection.client import connect
from redis_link.generation.sweep import Retention
from schemas.errors import GenerationError
from schemas.membership import MEMBERSHIPS_TABLE
from schemas.redis_keys import push_lock_key
from tests.servers.redis_content import Pairs, numbers_of_generations, pairs_in_redis
from tests.servers.redis_server import (
    cluster_url,
    free_port,
    make_certificates,
    running_cluster,
    running_redis,
    running_sentinel,
    wait_for,
)

pytestmark = pytest.mark.spark

AT_ONCE = Retention(grace_seconds=0)
PASSWORD = "a/b@c"  # noqa: S105 - of a server that lives for one test
IN_URL = "a%2Fb%40c"
SERVICE = "spaps-master"


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("lake")
    rows = spark.range(20_000).selectExpr(
        "id % 500 AS subId", "pmod(id * 7919, 3001) AS peid", "1 AS stageNo", "1L AS version"
    )
    path = str(folder / MEMBERSHIPS_TABLE)
    rows.repartition(2).write.format("delta").partitionBy("version").save(path)
    return str(folder)


@pytest.fixture(scope="module")
def expected(spark: Any, lake: str) -> Pairs:
    rows = spark.read.format("delta").load(f"{lake}/{MEMBERSHIPS_TABLE}")
    return {(row["peid"], row["subId"]) for row in rows.collect()}


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as running:
        yield running


def push(spark: Any, lake: str, url: str) -> int:
    report = push_generation(spark, lake, 1, url, retention=AT_ONCE, say=lambda _: None)
    assert report.cleanup is not None
    report.cleanup.wait()
    return report.generation


def test_a_cluster_of_three(
    spark: Any, lake: str, expected: Pairs, servers: ExitStack, tmp_path: Path
) -> None:
    nodes = servers.enter_context(running_cluster(tmp_path))
    url = cluster_url(nodes[:1])
    push(spark, lake, url)
    generation = push(spark, lake, url)
    client = connect(url)
    assert pairs_in_redis(client, generation) == expected
    assert numbers_of_generations(client) == {generation}
    for node in nodes:
        with Redis(port=node.port) as one:
            assert one.dbsize() > 0.2 * len({peid for peid, _ in expected})


def test_tls_with_a_password(
    spark: Any,
    lake: str,
    expected: Pairs,
    servers: ExitStack,
    tmp_path: Path,
    program: Callable[[str], Path],
) -> None:
    made = make_certificates(tmp_path / "certificates", program("openssl"))
    port = free_port()
    options = {
        "tls-port": port,
        "tls-cert-file": made.certificate,
        "tls-key-file": made.key,
        "tls-ca-cert-file": made.authority,
        "tls-auth-clients": "no",
        "requirepass": PASSWORD,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    servers.enter_context(running_redis(tmp_path / "tls", *words))
    url = f"rediss://:{IN_URL}@127.0.0.1:{port}?ca={made.authority}"
    assert pairs_in_redis(connect(url), push(spark, lake, url)) == expected


def test_the_master_that_sentinel_names(
    spark: Any, lake: str, expected: Pairs, servers: ExitStack, tmp_path: Path
) -> None:
    master = servers.enter_context(running_redis(tmp_path / "master"))
    sentinel = servers.enter_context(running_sentinel(tmp_path / "sentinel", SERVICE, master))
    generation = push(spark, lake, f"redis+sentinel://127.0.0.1:{sentinel}/{SERVICE}")
    with Redis(port=master.port) as client:
        assert pairs_in_redis(client, generation) == expected


def test_a_server_that_goes_away_while_executors_write(
    spark: Any, lake: str, servers: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, no secret, and the next push cleans up and succeeds."""
    arguments = ("--requirepass", PASSWORD, "--appendonly", "yes")
    server = servers.enter_context(running_redis(tmp_path / "away", *arguments))
    url = f"redis://:{IN_URL}@127.0.0.1:{server.port}?timeout=1"
    old = push(spark, lake, url)
    original = spark_push.read_generation_back

    def away(*given: Any) -> Any:
        server.kill()
        return original(*given)

    with monkeypatch.context() as patch:
        patch.setattr(spark_push, "read_generation_back", away)
        with pytest.raises(GenerationError, match=r"^the push failed: [^\n]+$") as caught:
            push(spark, lake, url)
    assert PASSWORD not in str(caught.value)
    assert IN_URL not in str(caught.value)
    server.restart()
    wait_for(lambda: bool(connect(url).ping()), "the server to be back")
    client = connect(url)
    assert numbers_of_generations(client) >= {old}
    client.delete(push_lock_key())
    generation = push(spark, lake, url)
    assert numbers_of_generations(client) == {generation}
