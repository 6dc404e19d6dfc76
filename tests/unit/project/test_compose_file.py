"""The compose file and the image: they name what is there, pinned, and open nothing by accident."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.settings import load_settings
from spaps.cli.command_line import run
from spaps.version import __version__

FOLDER = "deploy/compose"
IMAGE = "deploy/broker/Dockerfile"


@pytest.fixture
def services(repository: Path) -> dict[str, Any]:
    content = yaml.safe_load((repository / FOLDER / "compose.yaml").read_text("utf-8"))
    assert content["services"].keys() == {"redis", "rebuild", "broker", "prometheus", "grafana"}
    named = set(content["volumes"])
    for service in content["services"].values():
        mounted = {volume.partition(":")[0] for volume in service.get("volumes", ())}
        assert {volume for volume in mounted if not volume.startswith(".")} <= named
    services: dict[str, Any] = content["services"]
    return services


def test_files_that_are_mounted_exist(services: dict[str, Any], repository: Path) -> None:
    mounted = [
        volume.split(":")
        for service in services.values()
        for volume in service.get("volumes", ())
        if volume.startswith(".")
    ]
    assert len(mounted) >= 6
    for source, _, mode in mounted:
        assert (repository / FOLDER / source).exists(), source
        assert mode == "ro"


def test_ports_are_published_on_this_machine_alone(services: dict[str, Any]) -> None:
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert len(published) == 4
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert "ports" not in services["redis"]


def test_images_are_pinned(services: dict[str, Any], repository: Path) -> None:
    images = [service["image"] for service in services.values()]
    images += re.findall(r"^FROM (\S+)", (repository / IMAGE).read_text("utf-8"), re.MULTILINE)
    assert all(re.search(r":v?\d+\.\d+", image) for image in images), images
    assert services["broker"]["image"] == f"spaps-server:{__version__.rpartition('.')[0]}"


def test_waiting_is_for_services_that_are_there(services: dict[str, Any]) -> None:
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()
    assert services["broker"]["depends_on"]["rebuild"]["condition"] == (
        "service_completed_successfully"
    )
    assert "healthcheck" in services["redis"]


def test_commands_have_options_that_exist(
    services: dict[str, Any], repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [services["rebuild"]["command"]]
    image = (repository / IMAGE).read_text("utf-8")
    default = re.search(r"^CMD \[(.*)\]", image, re.MULTILINE)
    assert default is not None
    commands.append(shlex.split(default[1].replace(",", " ")))
    for name, *options in commands:
        assert run([name, "--help"]) == 0
        known = capsys.readouterr().out
        assert all(option in known for option in options if option.startswith("--"))


def test_the_settings_are_those_of_the_services(services: dict[str, Any], repository: Path) -> None:
    settings = load_settings(repository / FOLDER / "spaps.toml", environment={})
    assert settings.redis.url == "redis://redis:6379"
    targets = {volume.split(":")[1] for volume in services["broker"]["volumes"]}
    places = [settings.world.dir, settings.rebuild.out, *settings.rebuild.sources]
    places += [settings.rebuild.records, settings.broker.password_file or ""]
    for path in map(str, places):
        assert any(path == target or path.startswith(f"{target}/") for target in targets), path
    assert not settings.broker.allow_anonymous
    prometheus = yaml.safe_load((repository / FOLDER / "prometheus.yml").read_text("utf-8"))
    (job,) = prometheus["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["broker:9883"]}]
    assert settings.broker.http == "0.0.0.0:9883"
    assert prometheus["rule_files"] == ["alerts.yml"]


def test_the_broker_in_the_container_is_confined(services: dict[str, Any]) -> None:
    broker = services["broker"]
    assert broker["read_only"] is True
    assert broker["cap_drop"] == ["ALL"]
    assert broker["security_opt"] == ["no-new-privileges:true"]


def test_the_image_runs_as_a_user_of_its_own(repository: Path) -> None:
    text = (repository / IMAGE).read_text("utf-8")
    assert re.search(r"^USER spaps$", text, re.MULTILINE)
    extras = re.search(r"spaps-server\[([\w,]+)\]", text)
    assert extras is not None
    project = (repository / "pyproject.toml").read_text("utf-8")
    assert all(
        re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras[1].split(",")
    )
    hatchling = re.search(r"hatchling==[\d.]+", text)
    assert hatchling is not None
    assert hatchling[0] in project
    copied = re.findall(r"^COPY (?!--from)(\S+)", text, re.MULTILINE)
    assert copied == ["."]


def test_the_image_takes_the_versions_of_the_lock(repository: Path) -> None:
    """Each with its marker: a package may be locked twice, for different versions of Python."""
    text = (repository / IMAGE).read_text("utf-8")
    step = re.search(r"^RUN (sed .*?) requirements.lock >", text, re.MULTILINE)
    assert step is not None
    made = subprocess.run(
        [*shlex.split(step[1]), "requirements.lock"],
        cwd=repository, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    lock = (repository / "requirements.lock").read_text("utf-8")
    locked = [line.rstrip(" \\") for line in lock.splitlines() if re.match(r"\w", line)]
    assert made == locked
    assert any(";" in line for line in made)
