"""A rebuild in a process of its own, made to be killed."""

from __future__ import annotations

from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from redis_link.connection.client import connect
from tests.scenes.rebuild_scene import RebuildScene
from tests.servers.killable_push import CONTEXT, arm


def start_rebuild(
    scene: RebuildScene, dies_at: tuple[str, int] | None = None, **options: Any
) -> tuple[BaseProcess, Any]:
    """The process, and an event that it sets when it begins."""
    ready = CONTEXT.Event()
    arguments = (scene.folder, scene.redis_url, dies_at, options, ready)
    process = CONTEXT.Process(target=_rebuild, args=arguments, daemon=True)
    process.start()
    return process, ready


def _rebuild(
    folder: Path, url: str, dies_at: tuple[str, int] | None, options: dict[str, Any], ready: Any
) -> None:
    if dies_at is not None:
        arm(*dies_at)
    scene = RebuildScene(folder, url, connect(url))
    ready.set()
    scene.rebuild(**options)
