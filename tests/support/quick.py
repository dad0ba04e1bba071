"""``--quick``: the tests that start no process and open no socket.

No list names these tests. A door is a module of the standard library or of dralab that starts processes or opens
sockets. A test is left out if its module, a helper that the module imports, or the conftest of one of its fixtures is
a door or imports one. While the other tests run, Python's audit events report each attempt to start a process or open
a socket, and such a test is skipped. Tests with the marker ``slow`` are left out, too.
"""

import ast
import functools
import gc
import sys
import warnings
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_FOLDERS = frozenset({"conformance", "docs", "integration", "packaging"})
_TESTS = Path(__file__).resolve().parents[1]
_LIBRARIES = frozenset({"grpc", "multiprocessing", "socket", "subprocess"})
_CALLS = frozenset(
    {"create_server", "create_subprocess_exec", "create_subprocess_shell", "create_unix_server", "listening_socket",
     "open_connection", "open_unix_connection", "start_server", "start_unix_server"}
)  # fmt: skip
_EVENTS = frozenset(
    {"os.exec", "os.fork", "os.posix_spawn", "os.system", "socket.bind", "socket.connect", "subprocess.Popen"}
)


class Quick:
    """The plugin; see the module's docstring."""

    def __init__(self) -> None:
        self._running = False
        self._reached = ""

    def pytest_collection_finish(self) -> None:
        """Watch from now on: a hook cannot be removed, and collecting has a hundred thousand events."""
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._running and event in _EVENTS:
            self._reached = event
            raise RuntimeError(f"--quick: {event} {arguments!r}")

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave a module out before it is imported. None leaves the decision to other plugins."""
        if collection_path.is_dir():
            return True if collection_path.parent == _TESTS and collection_path.name in _FOLDERS else None
        return True if collection_path.name.startswith("test_") and _has_door(collection_path) else None

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = [item for item in items if _left_out(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _left_out(item)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        self._running, self._reached = True, ""
        try:
            return (yield)
        finally:
            self._running = False
            if self._reached:
                _forget_what_was_open()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if self._reached and report.failed:
            report.outcome = "skipped"
            report.longrepr = (__file__, 0, f"Skipped: --quick: it needs {self._reached}")
        return report


def _forget_what_was_open() -> None:
    """Collect resources that a stopped test left open, before another test is blamed for them."""
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def _left_out(item: pytest.Item) -> bool:
    return any(map(_has_door, _conftests(item))) or any(
        item.get_closest_marker(name) for name in ("slow", "system")
    )


def _conftests(item: pytest.Item) -> Iterator[Path]:
    """Return the files with shared fixtures of the test."""
    fixtures = getattr(item, "_fixtureinfo", None)
    for definitions in fixtures.name2fixturedefs.values() if fixtures else ():
        for definition in definitions:
            path = Path(definition.func.__code__.co_filename)
            if path.name == "conftest.py":
                yield path


@functools.cache
def _has_door(path: Path) -> bool:
    """True if a file of the tests is a door, imports one, or imports a helper that does."""
    # Helpers may import each other in a circle.
    pending, seen = [path], {path}
    while pending:
        current = pending.pop()
        if _is_door(current):
            return True
        for name in _imports(current):
            if name.partition(".")[0] in _LIBRARIES:
                return True
            source = _source(name)
            if source is None or source in seen:
                continue
            seen.add(source)
            if name.startswith("tests."):
                pending.append(source)
            elif _is_door(source):
                return True
    return False


@functools.cache
def _is_door(path: Path) -> bool:
    """True if a module starts processes or opens sockets."""
    # Most modules name no such function anywhere, and parsing them would take a second.
    text = path.read_text()
    return any(name in text for name in _CALLS) and any(
        (isinstance(node, ast.Attribute) and node.attr in _CALLS)
        or (isinstance(node, ast.Name) and node.id in _CALLS)
        for node in ast.walk(_parse(path))
    )


@functools.cache
def _imports(path: Path) -> frozenset[str]:
    found = set()
    for node in ast.walk(_parse(path)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return frozenset(found)


@functools.cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def _source(name: str) -> Path | None:
    """Return the file of a module of the tests or of dralab, or None.

    Imports nothing: `find_spec` would import the packages around the module.
    """
    top, _, rest = name.partition(".")
    root = _root(top)
    if root is None:
        return None
    path = root.joinpath(*rest.split(".")) if rest else root
    module = path.with_name(f"{path.name}.py")
    return next((file for file in (path / "__init__.py", module) if file.is_file()), None)


@functools.cache
def _root(package: str) -> Path | None:
    """Return the folder of a top-level package of the tests or of dralab, or None."""
    if package == _TESTS.name:
        return _TESTS
    spec = find_spec(package) if package.startswith("dra_") else None
    return Path(spec.origin).parent if spec and spec.origin else None
