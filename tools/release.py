"""Check a release, and tag it: ``python -m tools.release check`` and ``tag``, which ``make release`` runs."""

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_VERSION = re.compile(r'^__version__ = "(\d+\.\d+\.\d+)"$', re.MULTILINE)
_UNRELEASED = "[Unreleased]"


def find_version(repository: Path) -> str:
    """Return the version of the repository.

    Raises:
        ValueError: the version is not three numbers.
    """
    path = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["hatch"]["version"]["path"]
    found = _VERSION.search((repository / path).read_text())
    if found is None:
        raise ValueError(f"{path} has no version of three numbers")
    return found[1]


def read_sections(changelog: str) -> dict[str, str]:
    """Return the text below each heading of a version, such as ``[0.1.0] - 2026-11-28``."""
    parts = re.split(r"^## (.+)\n", changelog, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (text.strip() for text in parts[2::2]), strict=True))


def find_notes(repository: Path, version: str) -> str:
    """Return the changelog's section of the version, or an empty text."""
    sections = read_sections((repository / "CHANGELOG.md").read_text())
    heading = re.compile(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d")
    return next((text for title, text in sections.items() if heading.fullmatch(title)), "")


def find_problems(repository: Path, version: str) -> list[str]:
    """Return everything that keeps this version from being released."""
    problems = []
    if _git(repository, "status", "--porcelain"):
        problems.append("the working tree has changes: commit them first")
    if _git(repository, "branch", "--show-current") != "main":
        problems.append("releases are made from the branch main")
    if _git(repository, "tag", "--list", f"v{version}"):
        problems.append(f"there is a tag v{version} already: raise the version")
    if not find_notes(repository, version):
        problems.append(f"CHANGELOG.md has no section `## [{version}] - YYYY-MM-DD` with text")
    if read_sections((repository / "CHANGELOG.md").read_text()).get(_UNRELEASED) != "":
        problems.append(
            f"CHANGELOG.md needs an empty section `## {_UNRELEASED}`: move its lines to {version}"
        )
    return problems


def tag(repository: Path, version: str) -> None:
    """Create an annotated tag with the changelog's section as its message."""
    notes = f"dralab {version}\n\n{find_notes(repository, version)}\n"
    # Keep lines that begin with "#": the section has headings, which git would remove as comments.
    command = ["git", "tag", "--annotate", "--cleanup=whitespace", "--file=-", f"v{version}"]
    subprocess.run(command, cwd=repository, input=notes, text=True, check=True)


def _git(repository: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=repository, capture_output=True, text=True, check=True
    ).stdout.strip()


def main() -> int:
    """Return the exit code: 1 if the version cannot be released."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.release", description="Check a release, or tag it."
    )
    parser.add_argument("step", choices=["check", "tag"])
    step = parser.parse_args().step
    version = find_version(_ROOT)
    problems = find_problems(_ROOT, version)
    for problem in problems:
        print(f"cannot release {version}: {problem}", file=sys.stderr)
    if problems:
        return 1
    if step == "tag":
        tag(_ROOT, version)
        print(f"tagged v{version}; publish it with `git push origin main v{version}` and the files in dist/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
