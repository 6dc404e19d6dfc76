"""Dashboard and alert rules: all that they name is on the metrics page of a running broker."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.servers.certificates import Certificates
from tests.servers.raw_client import RawClient
from tests.servers.redis_server import RedisServer
from tests.servers.running_broker import running_broker

COMPOSE = "deploy/compose"
METRIC = re.compile(r"\b(?:spaps|process)_[a-z_]+\b")
GROUPED = re.compile(r"\bby \((\w+)\)")
SHOWN = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")
# Prometheus adds these when it reads the page, or they belong to a histogram.
OTHER_LABELS = {"instance", "job", "le"}


@pytest.fixture(scope="module")
def page(
    tmp_path_factory: pytest.TempPathFactory,
    shared_redis: RedisServer,
    certificates: Certificates,
    city: Path,
) -> str:
    """The metrics of a broker that uses everything: Redis, a world, a certificate."""
    config = f"""
    [broker.listeners.tls]
    type = "tcp"
    bind = "127.0.0.1:0"
    ssl = true
    certfile = "{certificates.server}"
    keyfile = "{certificates.server_key}"
    """
    arguments = (
        "--world", str(city), "--memberships", "redis", "--allow-anonymous", "--http", "0",
        "--redis", f"redis://127.0.0.1:{shared_redis.port}",
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("metrics")
    with (
        running_broker(folder, *arguments, config=config) as broker,
        RawClient(broker.port) as client,
    ):
        # A decision about a login has a sample once there is one.
        client.connect(client_id="metrics")
        return broker.page("/metrics")


def unknown(expression: str, shown: str, page: str) -> Iterator[str]:
    """Metrics of an expression that the page does not have, and labels that none of them has."""
    metrics = METRIC.findall(expression)
    for metric in metrics:
        if re.search(rf"^{metric}(?:\{{|\s)", page, re.MULTILINE) is None:
            yield metric
    for label in {*GROUPED.findall(expression), *SHOWN.findall(shown)} - OTHER_LABELS:
        found = (rf"^{metric}\{{[^}}]*\b{label}=" for metric in metrics)
        if not any(re.search(pattern, page, re.MULTILINE) for pattern in found):
            yield label


def panels(repository: Path) -> list[dict]:  # type: ignore[type-arg]
    """The panels with figures."""
    path = repository / COMPOSE / "grafana/dashboards/spaps-broker.json"
    return [panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row"]


def rules(repository: Path) -> list[dict]:  # type: ignore[type-arg]
    content = yaml.safe_load((repository / COMPOSE / "alerts.yml").read_text())
    return [rule for group in content["groups"] for rule in group["rules"]]


def test_every_metric_of_the_dashboard_exists(page: str, repository: Path) -> None:
    targets = [target for panel in panels(repository) for target in panel["targets"]]
    assert len(targets) > 40
    for target in targets:
        assert METRIC.search(target["expr"])
        assert list(unknown(target["expr"], target["legendFormat"], page)) == []


def test_every_metric_of_the_alert_rules_exists(page: str, repository: Path) -> None:
    assert len(rules(repository)) > 10
    for rule in rules(repository):
        assert METRIC.search(rule["expr"]) or rule["expr"].startswith("up{")
        assert list(unknown(rule["expr"], rule["annotations"]["summary"], page)) == []


def test_a_metric_or_a_label_that_is_not_there_is_found(page: str) -> None:
    assert list(unknown("rate(spaps_wrong_total[5m])", "", page)) == ["spaps_wrong_total"]
    assert list(unknown("sum by (limit) (spaps_drops_total)", "", page)) == ["limit"]
    assert list(unknown("spaps_drops_total", "{{ $labels.reason }}", page)) == ["reason"]


def test_panels_do_not_overlap(repository: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels(repository):
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert taken.isdisjoint(cells)
        taken |= cells


def test_the_alert_rules_are_those_of_the_page_for_operators(repository: Path) -> None:
    text = (repository / "docs/operations.md").read_text("utf-8").replace("\\|", "|")
    for rule in rules(repository):
        assert rule["expr"].strip() in text, rule["alert"]


def test_prometheus_accepts_rules_configuration_and_page(
    page: str, repository: Path, program: Callable[[str], Path]
) -> None:
    promtool = program("promtool")
    for arguments in (
        ["check", "rules", "alerts.yml"],
        ["check", "config", "--syntax-only", "prometheus.yml"],
    ):
        subprocess.run([promtool, *arguments], cwd=repository / COMPOSE, check=True)
    for target in (target for panel in panels(repository) for target in panel["targets"]):
        done = promtool_says(promtool, target["expr"].replace("$instance", ".*"))
        assert done.returncode == 0, done.stderr
    assert promtool_says(promtool, "rate(spaps_drops_total)").returncode != 0
    read = [promtool, "check", "metrics"]
    done = subprocess.run(read, input=page, capture_output=True, text=True, check=False)
    # Advice about names is no error of the format.
    assert "error" not in done.stderr.lower()


def promtool_says(promtool: Path, expression: str) -> subprocess.CompletedProcess[str]:
    """What promtool says about one expression, as a rule."""
    rule = {"groups": [{"name": "x", "rules": [{"record": "x", "expr": expression}]}]}
    return subprocess.run(
        [promtool, "check", "rules", "/dev/stdin"],
        input=yaml.safe_dump(rule), capture_output=True, text=True, check=False,
    )  # fmt: skip
