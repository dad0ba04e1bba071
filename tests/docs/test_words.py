"""Docs, and the names and docstrings of the code, are written in plain words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.cases import each_case
from tests.support.reference import REPOSITORY

_WORDS = re.compile(
    r"\b(told|said|heard|beside|anew|whoever|nobody|in\s+vain|astray|doubt|alike|goodness|mended|errands|patient"
    r"|stranger|for\s+ever)\b",
    re.IGNORECASE,
)
# The letters of a listed word. Most files have none of them, and need not be parsed.
_LETTERS = re.compile(_WORDS.pattern.replace(r"\b", "").replace(r"\s+", r"[\s_]*"), re.IGNORECASE)
_QUOTED = re.compile(r"^```.*?^```|`[^`]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
_FOLDERS = ("docs", "examples", "toolkit/dra_lab/learn/lessons")
_FILES = [page for folder in _FOLDERS for page in (REPOSITORY / folder).rglob("*.md")]
PAGES = sorted(page.relative_to(REPOSITORY).as_posix() for page in [*REPOSITORY.glob("*.md"), *_FILES])
PACKAGES = [
    "bench",
    "cli",
    "services/apiserver",
    "services/controller",
    "services/node-agent",
    "services/scheduler",
]
PACKAGES += ["shared", "tests", "toolkit", "tools"]


@each_case("page", PAGES)
def test_a_page_is_in_plain_words(page: str) -> None:
    text = _QUOTED.sub("", (REPOSITORY / page).read_text())
    assert not _WORDS.findall(text)


def test_the_descriptions_that_kubectl_explain_shows_are_in_plain_words() -> None:
    assert not _WORDS.findall((REPOSITORY / "shared/dra_shared/api/schema/descriptions.yaml").read_text())


@each_case("package", PACKAGES)
def test_names_and_docstrings_are_in_plain_words(package: str) -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}: {text}"
        for path in sorted((REPOSITORY / package).rglob("*.py"))
        for text in _texts(path)
        if _WORDS.search(text)
    ]
    assert not found


def test_the_word_check_finds_listed_words(tmp_path: Path) -> None:
    module = tmp_path / "beside.py"
    module.write_text('def was_told():\n    """For\n    ever."""\n    whoeverElse = 1\n')
    found = [text for text in _texts(module) if _WORDS.search(text)]
    assert found == ["beside", "was told", "For\n    ever.", "whoever Else"]
    assert not _WORDS.search("patients")


def _texts(path: Path) -> Iterator[str]:
    """Yield the module's name, the names that it defines, and its docstrings, with words separated."""
    yield _apart(path.stem)
    source = path.read_text()
    if not _LETTERS.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield _apart(node.name)
        elif isinstance(node, ast.arg):
            yield _apart(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield _apart(node.id)
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield _QUOTED.sub("", node.value.value)


def _apart(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").strip()
