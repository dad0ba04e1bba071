"""A release is rejected unless the tree, the version and the changelog agree."""

import subprocess
from pathlib import Path

import pytest

from tests.support.reference import REPOSITORY
from tools.release import find_notes, find_problems, find_version, read_sections, tag

_CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n- a\n"


def _git(repository: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    return subprocess.run(
        ["git", *identity, *words], cwd=repository, capture_output=True, text=True, check=True
    ).stdout


def _commit(repository: Path, **files: str) -> None:
    for name, text in files.items():
        (repository / name.replace("_", ".")).write_text(text)
    _git(repository, "add", "-A")
    _git(repository, "commit", "-qm", "tests: write files")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository whose version 0.2.0 can be released."""
    _git(tmp_path, "init", "-q", "-b", "main")
    _git(tmp_path, "config", "user.name", "t")
    _git(tmp_path, "config", "user.email", "t@example.com")
    _commit(
        tmp_path,
        pyproject_toml='[tool.hatch.version]\npath = "version.py"\n',
        version_py='__version__ = "0.2.0"\n',
        CHANGELOG_md=_CHANGELOG,
    )
    return tmp_path


def test_a_release_is_tagged_with_the_changelogs_section(repository: Path) -> None:
    version = find_version(repository)
    assert find_problems(repository, version) == []
    tag(repository, version)
    assert _git(repository, "cat-file", "tag", "v0.2.0").endswith("\n\ndralab 0.2.0\n\n### Added\n\n- a\n")
    assert find_problems(repository, version) == ["there is a tag v0.2.0 already: raise the version"]


def test_a_tree_with_changes_is_rejected(repository: Path) -> None:
    (repository / "new").touch()
    assert find_problems(repository, "0.2.0") == ["the working tree has changes: commit them first"]


def test_another_branch_than_main_is_rejected(repository: Path) -> None:
    _git(repository, "switch", "-qc", "work")
    assert find_problems(repository, "0.2.0") == ["releases are made from the branch main"]


@pytest.mark.parametrize(
    ("heading", "body"),
    [("[0.1.0] - 2026-12-01", "- a"), ("[0.2.0]", "- a"), ("[0.2.0] - 2026-12-01", "")],
)
def test_a_version_without_a_dated_section_is_rejected(repository: Path, heading: str, body: str) -> None:
    _commit(repository, CHANGELOG_md=f"# Changelog\n\n## [Unreleased]\n\n## {heading}\n\n{body}\n")
    (problem,) = find_problems(repository, "0.2.0")
    assert problem == "CHANGELOG.md has no section `## [0.2.0] - YYYY-MM-DD` with text"


def test_a_changelog_with_unreleased_lines_is_rejected(repository: Path) -> None:
    _commit(repository, CHANGELOG_md=_CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n- b\n"))
    (problem,) = find_problems(repository, "0.2.0")
    assert problem.endswith("move its lines to 0.2.0")


def test_a_version_that_is_not_three_numbers_is_rejected(repository: Path) -> None:
    _commit(repository, version_py='__version__ = "0.2.0.dev1"\n')
    with pytest.raises(ValueError, match="no version of three numbers"):
        find_version(repository)


def test_our_changelog_has_a_section_for_our_version() -> None:
    assert find_notes(REPOSITORY, find_version(REPOSITORY))


def test_our_changelog_lists_no_heading_twice() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    sections = read_sections(text)
    assert len(sections) == text.count("\n## ")
    for body in sections.values():
        headings = [line for line in body.splitlines() if line.startswith("### ")]
        assert len(headings) == len(set(headings))
