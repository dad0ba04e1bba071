"""Where tests are: pytest finds every one of them."""

import re
from pathlib import Path

_TESTS = Path(__file__).parent
_TEST = re.compile(r"^(async )?def test_", re.MULTILINE)
# What tests read or run, and pytest does not.
_NOT_OURS = {"data", "__pycache__"}


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
