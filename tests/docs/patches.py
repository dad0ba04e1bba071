"""Changes that a page shows as ``diff`` blocks, applied to a copy of the packages."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Hunk:
    """Some lines of a file, and their replacement."""

    path: str
    after: str = ""
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def apply(self, folder: Path) -> None:
        """Change the file.

        Raises:
            AssertionError: the file does not have the lines.
        """
        file = folder / self.path
        if not self.old and not self.after:
            assert not file.exists(), f"{self.path} exists already"
            file.write_text("\n".join([*self.new, ""]))
            return
        lines = file.read_text().split("\n")
        start = next((number for number, line in enumerate(lines) if self.after in line), None)
        assert start is not None, f"{self.path} has no line with {self.after!r}"
        count = len(self.old)
        found = [at for at in range(start, len(lines) - count + 1) if lines[at : at + count] == self.old]
        assert found, f"{self.path} does not have these lines after {self.after!r}: {self.old}"
        lines[found[0] : found[0] + count] = self.new
        file.write_text("\n".join(lines))


def hunks(page: str, heading: str) -> list[Hunk]:
    """Return the changes in the ``diff`` blocks below a heading."""
    section = re.split(r"^#+ ", page.partition(f" {heading}\n")[2], flags=re.MULTILINE)[0]
    found: list[Hunk] = []
    for block in re.findall(r"^```diff\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("--- "):
                found.append(Hunk(line[4:]))
            elif line.startswith("@@ "):
                if found[-1].old:
                    found.append(Hunk(found[-1].path))
                found[-1].after = line[3:]
            else:
                if line[0] != "+":
                    found[-1].old.append(line[1:])
                if line[0] != "-":
                    found[-1].new.append(line[1:])
    return found


_API_SERVER = ("shared/dra_shared", "services/apiserver/dra_apiserver")


def copy_packages(repository: Path, folder: Path, packages: Sequence[str] = _API_SERVER) -> None:
    """Copy everything that the API server runs, compiled in place, so that unchanged files need no compilation."""
    for package in packages:
        shutil.copytree(repository / package, folder / package)
