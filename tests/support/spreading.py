"""Tests that pytest-xdist gives to one worker together, and the order of the groups."""

from collections import Counter
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_TOGETHER = ("tests/integration/clients", "tests/packaging")
_APART = ("tests/docs/test_commands.py",)


def group(nodeid: str) -> str:
    """Return the group of the test: a module, a folder of modules, or the test itself."""
    subject = _subject(nodeid)
    return nodeid if subject in _APART else subject


def slow_first(items: list[pytest.Item]) -> None:
    """Sort tests by the number of slow ones in their module or folder, and then by path."""
    slow = Counter(_subject(item.nodeid) for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (-slow[_subject(item.nodeid)], item.nodeid.partition("::")[0]))


def folders_from(folder: Path, worker: int, workers: int) -> list[Path]:
    """Return the modules and folders with tests in a folder, in an order that begins elsewhere for each worker.

    Workers collect the same tests at the same time. A module is compiled, with its assertions rewritten, by the worker
    that collects it first, and the others read the result.
    """
    entries = sorted(path for path in folder.iterdir() if path.is_dir() or path.name.startswith("test_"))
    modules = {path: 1 if path.is_file() else len([*path.rglob("test_*.py")]) for path in entries}
    entries = [path for path in entries if modules[path]]
    start, before, total = 0, 0, sum(modules.values())
    while before + modules[entries[start]] / 2 < total * worker / workers:
        before += modules[entries[start]]
        start += 1
    return entries[start:] + entries[:start]


def _subject(nodeid: str) -> str:
    module = nodeid.partition("::")[0]
    folder = module.rpartition("/")[0]
    return folder if folder in _TOGETHER else module


class Spreading(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Distributes groups in the order of collection."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
