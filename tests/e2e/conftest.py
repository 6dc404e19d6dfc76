"""Both wheels, and environments made of them: what a user has who never saw the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

OURS = re.compile(r"_?spaps.*|__editable__.*|__pycache__|.*\.pth", re.IGNORECASE)
WAIT_SECONDS = 300


@pytest.fixture(scope="session")
def wheels(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels by the names of their distributions, built as for a release."""
    folder = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    for project in (repository, repository / "wheels" / "client"):
        subprocess.run(build, cwd=project, check=True, capture_output=True, timeout=WAIT_SECONDS)
    built = {path.name.split("-")[0].replace("_", "-"): path for path in folder.glob("*.whl")}
    assert set(built) == {"spaps-mqtt", "spaps-server"}
    return built


class Environment:
    """A virtual environment that sees nothing but itself and one folder of packages."""

    def __init__(self, folder: Path, packages: Path) -> None:
        """Make it; ``packages`` are seen, and no pip of this environment touches them."""
        make = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
        subprocess.run(make, check=True, timeout=WAIT_SECONDS)
        self.programs = folder / "bin"
        self.python = self.programs / "python"
        version = "{}.{}".format(*sys.version_info)
        self.site = folder / "lib" / f"python{version}" / "site-packages"
        (self.site / "packages.pth").write_text(f"{packages}\n")

    @property
    def variables(self) -> dict[str, str]:
        """Variables of its processes: none leads to the clone."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "SPARK_", "PYSPARK_", "VIRTUAL_ENV"))
        }
        return {**kept, "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}"}

    def install(self, *wanted: str) -> None:
        """Install wheels with pip, from no index: what they need must be there."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--no-index"]
        quiet = ["--no-input", "--disable-pip-version-check", "--no-compile"]
        self._run([*pip, *quiet, *wanted], self.site)

    def run(self, *command: str | Path, folder: Path) -> str:
        """What a program of this environment prints, started in a folder."""
        return self._run(list(map(str, command)), folder)

    def _run(self, command: list[str], folder: Path) -> str:
        done = subprocess.run(
            command,
            cwd=folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def locked_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Links to the packages of the environment that runs the tests, without our own."""
    folder = tmp_path_factory.mktemp("locked")
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for package in Path(place).iterdir():
            if not OURS.fullmatch(package.name):
                (folder / package.name).symlink_to(package)
    return folder


@pytest.fixture(scope="session")
def client_environment(
    wheels: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    link_packages: Callable[[list[str], Path], None],
) -> Environment:
    """An environment with paho and the client's wheel, and nothing else."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "packages").mkdir()
    link_packages(["paho-mqtt"], folder / "packages")
    environment = Environment(folder / "environment", folder / "packages")
    environment.install(str(wheels["spaps-mqtt"]))
    return environment


@pytest.fixture(scope="session")
def server_environment(
    wheels: dict[str, Path], locked_packages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    """An environment with the server's wheel and everything that its extras ask for."""
    environment = Environment(tmp_path_factory.mktemp("server") / "environment", locked_packages)
    server = wheels["spaps-server"]
    # The client of the same version is found beside it, as on an index.
    environment.install(
        "--find-links", str(server.parent), f"{server}[world,redis,batch,broker,schedule]"
    )
    return environment


@pytest.fixture(scope="session")
def link_packages() -> Callable[[list[str], Path], None]:
    """``link_packages(names, folder)`` puts installed packages and what they need there."""

    def link(names: list[str], folder: Path) -> None:
        known: set[str] = set()
        for name in names:
            _link_with_all_it_needs(name, folder, known)

    return link


def _link_with_all_it_needs(name: str, folder: Path, known: set[str]) -> None:
    if name.lower() in known:
        return
    known.add(name.lower())
    try:
        package = distribution(name)
    except PackageNotFoundError:  # for another system or Python
        return
    for file in package.files or ():
        here = folder / file.parts[0]
        if file.parts[0] != ".." and not here.is_symlink():
            here.symlink_to(str(package.locate_file(file.parts[0])))
    for requirement in package.requires or ():
        needed = re.match(r"[\w.-]+", requirement)
        if needed is not None and "extra ==" not in requirement:
            _link_with_all_it_needs(needed[0], folder, known)


@pytest.fixture
def spaps(
    monaco_world: str, tmp_path: Path, repository: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``spaps`` in a process of its own, in an empty folder, on the sample world."""

    def command(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).with_name("spaps")), *arguments],
            cwd=tmp_path,
            env={
                "SPAPS_WORLD_DIR": monaco_world,
                "COLUMNS": "120",
                "LANG": "C.UTF-8",
                # The code of this clone, also where another one is installed.
                "PYTHONPATH": str(repository),
            },
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return command
