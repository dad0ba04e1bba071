"""The language check finds what its rules forbid, and its recorded numbers only go down."""

import subprocess
from pathlib import Path

import pytest

from tests.support.cases import each_case
from tools.language import check_code, check_page, check_title, check_titles, is_participle, main

_BAD = 'def build() -> None:\n    """What is built."""\n'
_GOOD = 'def build() -> None:\n    """Build it."""\n'


def _find(source: str) -> list[tuple[str, int, str]]:
    return [(found.rule, found.line, found.text) for found in check_code("tests/a/test_b.py", source)]


@each_case("word", ["What", "Which", "Who", "Where", "How", "As", "Those", "That", "Whether", "Of", "“What"])
def test_docstring_that_opens_with_a_listed_word_is_found(word: str) -> None:
    text = f"{word} is it."
    source = f'class A:\n    async def read(self):\n        """{text}\n\n        More.\n        """\n'
    assert _find(source) == [("docstrings", 3, text)]


@pytest.mark.parametrize("text", ["Return it.", "Assert what it is.", "Official names.", "True if it is."])
def test_plain_docstring_is_accepted(text: str) -> None:
    assert _find(f'"""{text}"""\n\nx = """What is no docstring."""\n') == []


def test_docstrings_below_other_statements_are_found() -> None:
    inner = '        def run():\n            """How it runs."""\n'
    source = f"try:\n    if x:\n{inner}finally:\n    match x:\n        case 1:\n            'That value.'\n"
    assert {line for _, line, _ in _find(source)} == {4, 8}


@each_case("name", ["made", "_known", "waiting", "resolved", "unsent", "__shown"])
def test_function_named_by_a_bare_participle_is_found(name: str) -> None:
    assert _find(f"def {name}(): ...\n") == [("participles", 1, name)]


@each_case("name", ["build", "is_made", "made_pods", "need", "embed", "mapping", "__init__", "nvmlGetCached"])
def test_other_names_are_not_participles(name: str) -> None:
    assert not is_participle(name)


@each_case("start", ["what", "who", "which", "where", "of", "as", "it", "that", "those"])
def test_test_name_that_is_not_a_statement_is_found(start: str) -> None:
    name = f"test_{start}_is_there"
    assert _find(f"async def {name}(): ...\n") == [("tests", 1, name)]


@pytest.mark.parametrize(
    "name", ["test_assets_are_pinned", "test_items_are_listed", "test_pods_wait_where_no_node_fits"]
)
def test_test_name_that_is_a_statement_is_accepted(name: str) -> None:
    assert _find(f"def {name}(): ...\n") == []


_LONG = "long " * 20 + "lines"


@pytest.mark.parametrize("line", [_LONG, f"* {_LONG}", f"> {_LONG}", f"text [link](https://{'x' * 100})"])
def test_long_line_of_a_page_is_found(line: str) -> None:
    assert [found.line for found in check_page("docs/a.md", f"# Title\n\n{line}\n")] == [3]


@each_case(
    "text",
    [
        _LONG[:100],
        f"| {_LONG} |",
        f"```sh\n{_LONG}\n```",
        f"  ~~~\n{_LONG}\n  ~~~",
        f"# {_LONG}",
        f"<!-- before: {_LONG} -->",
        f"* [a link of words](https://{'x' * 100}).",
        f"1. `{_LONG}`",
        f"https://{'x' * 100}",
    ],
)
def test_long_line_that_cannot_be_broken_is_accepted(text: str) -> None:
    assert list(check_page("docs/a.md", text)) == []


def test_long_line_after_a_code_block_is_found() -> None:
    assert [found.line for found in check_page("docs/a.md", f"```\nx\n```\n{_LONG}\n")] == [4]


@each_case(
    "title",
    [
        "apiserver: end watches when PostgreSQL is unreachable",
        "node-agent, tests: process claims once",
        "shared: embed the schema",
        "cli: cross-check both answers",
        "scheduler: found groups on pods",
        'Revert "apiserver: end watches"',
    ],
)
def test_an_imperative_commit_title_is_accepted(title: str) -> None:
    assert check_title(title) is None


@each_case(
    "title",
    [
        "end watches",
        "apiserver: PostgreSQL databases work",
        "apiserver: watches end where PostgreSQL is away",
        "tests: commands' tests wait for events",
        "cli: added a command",
        "cli: adding a command",
        "cli: made it faster",
        "docs: the tutorial is shorter",
        "tests: format",
        f"cli: add {'x' * 70}",
    ],
)
def test_a_commit_title_that_is_not_imperative_is_rejected(title: str) -> None:
    assert check_title(title)


def _git(folder: Path, *arguments: str) -> None:
    settings = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *settings, *arguments], cwd=folder, check=True, capture_output=True)


def _commit(folder: Path, title: str) -> None:
    _git(folder, "add", "--all")
    _git(folder, "commit", "--allow-empty", "--no-verify", "--message", title)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with one old finding, whose branch main has a wrong title."""
    folder = tmp_path / "repository"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "old.py").write_text(_BAD)
    assert main(["--update"], folder) == 0
    _git(folder, "init", "--initial-branch=main")
    _commit(folder, "Everything as it was")
    return folder


def test_titles_of_main_are_not_checked(repository: Path, tmp_path: Path) -> None:
    clone, shallow = tmp_path / "clone", tmp_path / "shallow"
    _git(tmp_path, "clone", str(repository), str(clone))
    _commit(repository, "Another one")
    _git(tmp_path, "clone", "--depth=1", f"file://{repository}", str(shallow))
    _commit(shallow, "In a shallow clone")

    assert check_titles(repository) == check_titles(clone) == check_titles(shallow) == []
    _git(clone, "checkout", "--detach", "HEAD")
    assert check_titles(clone) == []


def test_title_of_a_commit_that_main_lacks_is_checked(repository: Path, tmp_path: Path) -> None:
    _git(tmp_path, "clone", str(repository), "clone")
    for folder in (repository, tmp_path / "clone"):
        _git(folder, "checkout", "-b", "branch")
        _commit(folder, "tools: add a rule")
        _commit(folder, "tools: rules are added")
    _git(tmp_path / "clone", "branch", "--delete", "--force", "main")

    for folder in (repository, tmp_path / "clone"):
        (message,) = check_titles(folder)
        assert "'tools: rules are added' is not in the imperative: 'rules'" in message
        assert main([], folder) == 1


def test_titles_are_not_checked_where_main_or_git_is_absent(repository: Path, tmp_path: Path) -> None:
    (repository / "unpacked").mkdir()
    _git(repository, "checkout", "-b", "branch")
    _commit(repository, "Wrong")
    assert check_titles(repository)
    assert check_titles(repository / "unpacked") == []

    _git(repository, "branch", "--delete", "--force", "main")
    assert check_titles(repository) == []
    assert check_titles(tmp_path) == []


def test_repository_with_the_recorded_numbers_passes(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], repository) == 0
    assert capsys.readouterr().out == ""


def test_new_finding_fails_and_its_place_is_printed(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = repository / "tools" / "old.py"
    old.write_text(_BAD + "\n\n" + _BAD.replace("build", "read"))
    (repository / "tools" / "new.py").write_text(_BAD)

    assert main([], repository) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("tools: 3 findings of docstrings, and 1 are allowed")
    assert lines[1:] == ["  tools/new.py:2: What is built.", "  tools/old.py:6: What is built."]
    assert main(["--update"], repository) == 1
    assert "docstrings: more findings than recorded" in capsys.readouterr().out


def test_all_places_are_printed_without_git(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "new.py").write_text(_BAD * 25)

    assert main([], tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 22
    assert lines[-1] == "  … and 5 more"


def test_fewer_findings_fail_until_the_number_is_recorded(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "tools" / "old.py").write_text(_GOOD)

    assert main([], repository) == 1
    assert "`python -m tools.language --update`" in capsys.readouterr().out
    assert main(["--update"], repository) == 0
    (repository / "tools" / "old.py").write_text(_BAD)
    assert main([], repository) == 1


def test_code_with_findings_may_move_between_packages(repository: Path) -> None:
    (repository / "tools" / "site").mkdir()
    (repository / "tools" / "old.py").rename(repository / "tools" / "site" / "old.py")

    assert main([], repository) == 1
    assert main(["--update"], repository) == 0
    assert main([], repository) == 0
