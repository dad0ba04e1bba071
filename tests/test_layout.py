"""The layout of the tests: pytest finds every one of them."""

import ast
import re
from pathlib import Path

_TESTS = Path(__file__).parent
_REPOSITORY = _TESTS.parent
# Other aliases of dict that are not JSON objects.
_OTHER_TYPES = {"FieldSet", "Schema"}
_TEST = re.compile(r"^(async )?def test_", re.MULTILINE)
# Files that tests read or run, and that pytest does not collect.
_NOT_OURS = {"data", "__pycache__"}
# Programs and tasks that act repeatedly. They wait for nothing.
_ACTORS = {
    "driver_conformance/mutants/life.py": "drivers that report health periodically",
    "driver_conformance/mutants/unseen.py": "drivers that publish and report health periodically",
    "driver_conformance/reference.py": "a driver that publishes and reports health periodically",
    "driver_conformance/test_suite.py": "an API server that deletes late",
    "endurance/plugin.py": "a device plugin that registers at each new kubelet",
    "endurance/run.py": "tasks that break things at random times",
    "endurance/servers.py": "writers and watchers that try again",
    "integration/apiserver/test_watch_guarantees.py": "a slow watcher, and lists while others write",
    "integration/node_agent/test_kill.py": "kills at given moments",
    "support/waiting.py": "the one place that polls",
}


def _modules() -> list[Path]:
    found = (path.relative_to(_TESTS) for path in _TESTS.rglob("*.py"))
    return [path for path in found if not _NOT_OURS.intersection(path.parts)]


def test_every_test_is_in_a_module_that_pytest_collects() -> None:
    lost = [
        str(path)
        for path in _modules()
        if not path.name.startswith("test_") and _TEST.search((_TESTS / path).read_text())
    ]
    assert lost == []


def _loops_that_sleep(source: str) -> list[int]:
    """Return the lines of the loops that sleep in each round."""
    # Most modules name no such function, and parsing them would take seconds.
    if "sleep" not in source:
        return []
    return [
        loop.lineno
        for loop in ast.walk(ast.parse(source))
        if isinstance(loop, ast.While | ast.For | ast.AsyncFor)
        and any(
            isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "sleep"
            for call in ast.walk(loop)
        )
    ]


def test_no_test_polls_except_through_the_waiting_module() -> None:
    """Other modules wait with ``tests.support.waiting``, or let turns of the loop pass with ``settle``."""
    polling = {
        f"tests/{path}:{line}"
        for path in _modules()
        if str(path) not in _ACTORS
        for line in _loops_that_sleep((_TESTS / path).read_text())
    }
    assert polling == set()


def test_every_module_allowed_to_sleep_in_a_loop_does_so() -> None:
    assert [path for path in _ACTORS if not _loops_that_sleep((_TESTS / path).read_text())] == []


def test_loop_that_sleeps_until_a_condition_holds_is_found() -> None:
    polling = "async def wait():\n    while not ready():\n        await asyncio.sleep(0.1)\n"
    assert _loops_that_sleep(polling) == [2]


def test_only_one_alias_names_the_type_of_json_objects() -> None:
    """Only ``JsonObject`` of dra_shared.jsontypes may name this type.

    Json, Object and Document were names for it too.
    """
    alias = re.compile(r"^(\w+)(?:: TypeAlias)? = dict\[str, Any\]$", re.MULTILINE)
    found = {
        path.relative_to(_REPOSITORY).as_posix(): names
        for folder in ("bench", "cli", "services", "shared", "tests", "toolkit", "tools")
        for path in (_REPOSITORY / folder).rglob("*.py")
        if (names := set(alias.findall(path.read_text())) - _OTHER_TYPES)
    }
    assert found == {"shared/dra_shared/jsontypes.py": {"JsonObject"}}
