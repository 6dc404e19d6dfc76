"""Runs the steps of the Dockerfile in a new Debian root, and a broker in it: ``make check-image``.

For machines without Docker. It needs root, debootstrap and a network; it takes some minutes. The
root is the Debian release of the base image, with Debian's own Python of the same version.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
# As images have it.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PORT, HTTP_PORT = 21883, 29883
SETTINGS = f"""
[world]
dir = "/var/lib/spaps/world"
[broker]
listen = "127.0.0.1:{PORT}"
http = "127.0.0.1:{HTTP_PORT}"
allow_anonymous = true
"""
NEIGHBORHOOD = "({4000000005986438},{zone/admin/+},T)"


@dataclass
class Stage:
    """A root folder, and what the instructions have set so far."""

    root: Path
    folder: str = "/"
    user: str = "root"
    variables: dict[str, str] = field(default_factory=dict)
    entrypoint: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    def command(self, words: list[str]) -> list[str]:
        """Return what runs a command in the root, as its user and with its variables only."""
        variables = surroundings() | {"HOME": "/tmp", "PATH": PATH} | self.variables
        settings = [f"{name}={value}" for name, value in variables.items()]
        inside = ["sh", "-c", 'cd "$0" && exec "$@"', self.folder, *words]
        # A container has /proc. The mount is seen by this command alone and ends with it.
        with_proc = ["sh", "-c", 'mount -t proc proc "$0/proc" && exec "$@"', str(self.root)]
        return [
            "unshare",
            "--mount",
            *with_proc,
            "chroot",
            f"--userspec={self.user}",
            str(self.root),
            "env",
            "-i",
            *settings,
            *inside,
        ]

    def do(self, word: str, text: str) -> None:
        """Do an instruction that is about this stage alone."""
        match word:
            case "WORKDIR":
                self.folder = text
                (self.root / text.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "RUN":
                self.run(["sh", "-c", text])
            case "ENV":
                name, _, value = text.partition("=")
                self.variables[name] = value
            case "USER":
                self.user = text
            case "ENTRYPOINT":
                self.entrypoint = json.loads(text)
            case "HEALTHCHECK":
                self.health = json.loads(text.partition("CMD ")[2])

    def run(self, words: list[str]) -> None:
        """Run a command; its failure ends the check."""
        print("  " + shlex.join(words)[:150], flush=True)
        subprocess.run(self.command(words), check=True)


def surroundings() -> dict[str, str]:
    """Return how this machine reaches packages: settings of pip, and proxies."""
    wanted = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    proxies = {name: value for name, value in os.environ.items() if name.endswith("_proxy")}
    # Debian's pip installs into its own Python only when told so; that of the image always does.
    return wanted | proxies | {"PIP_BREAK_SYSTEM_PACKAGES": "1", "LANG": "C.UTF-8"}


def instructions(path: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, comments left out."""
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    found = [line.partition(" ") for line in text.splitlines() if line.strip()]
    return [(word.upper(), rest.strip()) for word, _, rest in found]


def base_root(folder: Path) -> Path:
    """Make a Debian root in which packages can be installed as on this machine."""
    root = folder / "base"
    release = next(text for word, text in instructions(HERE / "Dockerfile") if word == "FROM")
    name = release.split()[0].rpartition("-")[2]
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", name, str(root)],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    files = [
        "/etc/resolv.conf",
        os.environ.get("PIP_CERT", ""),
        os.environ.get("PIP_FIND_LINKS", ""),
    ]
    for file in map(Path, filter(None, files)):
        place = root / file.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            shutil.copytree(file, place, dirs_exist_ok=True)
        else:
            shutil.copy(file, place)
    # A container has this file too; a new Debian root has none.
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    return root


def copy_context(stage: Stage, target: str) -> None:
    """Copy the files of the clone that git knows and the ignore file does not name."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(
        listed, cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout
    left_out = (HERE / "Dockerfile.dockerignore").read_text("utf-8").split("\n")
    to = stage.root / stage.folder.lstrip("/") / target
    for name in filter(None, names.split("\0")):
        source = REPOSITORY / name
        if name.partition("/")[0] in left_out or not os.path.lexists(source):
            continue
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, to / name, follow_symlinks=False)


def built(folder: Path) -> Stage:
    """Do all instructions; return the last stage."""
    base = base_root(folder)
    stages: dict[str, Stage] = {}
    stage = Stage(base)
    for word, text in instructions(HERE / "Dockerfile"):
        if word == "FROM":
            name = text.partition(" AS ")[2] or "last"
            root = folder / name
            subprocess.run(["cp", "-a", str(base), str(root)], check=True)
            stage = stages[name] = Stage(root)
        elif word == "COPY" and text.startswith("--from="):
            name, source, target = text.removeprefix("--from=").split()
            other = stages[name].root / source.lstrip("/")
            shutil.copytree(other, stage.root / target.lstrip("/"))
        elif word == "COPY":
            copy_context(stage, text.split()[1])
        else:
            stage.do(word, text)
    return stage


def check(stage: Stage) -> None:
    """Import a world, start the broker as the image does, and have a message delivered."""
    shutil.copy(REPOSITORY / "data/monaco.osm.pbf", stage.root / "tmp")
    (stage.root / "etc/spaps/spaps.toml").write_text(SETTINGS)
    spaps = stage.entrypoint
    stage.run([*spaps, "import", "/tmp/monaco.osm.pbf", "--world", "/var/lib/spaps/world"])
    stage.run([*spaps, "config", "check", "--config", "/etc/spaps/spaps.toml"])
    start = [*spaps, "broker", "--config", "/etc/spaps/spaps.toml"]
    with subprocess.Popen(stage.command(start), stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            print(broker.stdout.readline().strip(), flush=True)
            stage.run([part.replace("9883", str(HTTP_PORT)) for part in stage.health])
            wanted = [
                "sub",
                "-p",
                str(PORT),
                "-t",
                "a/#",
                "--neighborhood",
                NEIGHBORHOOD,
                "-C",
                "1",
            ]
            heard = subprocess.Popen(stage.command([*spaps, *wanted]), stdout=subprocess.PIPE)
            message = ["pub", "-p", str(PORT), "-t", "a/b", "--peid", "4000000005986437", "-r"]
            stage.run([*spaps, *message, "-m", "hello"])
            said, _ = heard.communicate(timeout=120)
            assert said.strip() == b"hello", said
        finally:
            broker.terminate()
        assert broker.wait(120) == 0, "the broker did not end as it should"


def main() -> int:
    """Return 0 when all steps are done and the broker in the root delivers."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        print("this needs root and debootstrap (Debian: apt install debootstrap)", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="spaps-image-") as folder:
        check(built(Path(folder)))
    print("the image's steps run in a clean root, and its broker delivers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
