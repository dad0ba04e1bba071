"""The pages of the site: those in ``docs/``, those generated from the code, and the files and images that they link.

It imports only the standard library, because the distribution's build loads this file by its path.

Links in ``docs/`` are relative, so that they work in the repository. A page keeps its name here. A link to a file
that is not a page becomes a link to a page that shows the file.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: The line in ``docs/README.md`` that is replaced by the list of pages that are generated from the code.
GENERATED = "<!-- pages made from the code -->"
_INDEX = "docs/README.md"
_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
# A link whose text is the file name of its target.
_NAMED = re.compile(r"\[`?[\w./-]+\.md`?\](?=\(([\w./-]+\.md)[#)])")
_ENTRY = re.compile(r"^\* \[(.*?)\]\((.*?)\)")
_IMAGES = frozenset({".png", ".svg"})
_LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".py": "python", ".toml": "toml"}
Navigation = list[dict[str, Any]]
#: The JSON file that stores the result of :meth:`Pages.navigation` in the folder of an installation's pages.
NAVIGATION = "navigation.json"


@dataclass(frozen=True)
class Page:
    """A generated page: its path below the documentation's folder, its title, one line about it, and its body."""

    path: str
    title: str
    about: str
    body: str

    @property
    def text(self) -> str:
        """The page in Markdown."""
        return f"# {self.title}\n\n{self.about}\n\n{self.body.strip()}\n"


class Pages:
    """All pages in Markdown, by their paths below the site, and their order."""

    def __init__(self, repository: Path, made: Iterable[Page]) -> None:
        self._repository = repository
        self._made = list(made)
        self._images: set[Path] = set()
        self._wanted: list[Path] = sorted((repository / "docs").rglob("*.md"))
        self.texts: dict[str, str] = {page.path: page.text for page in self._made}
        seen: set[Path] = set()
        while self._wanted:
            path = self._wanted.pop()
            if path not in seen:
                seen.add(path)
                self.texts[self._place(path)] = self._text(path)

    def write(self, folder: Path) -> None:
        """Write the pages and images as files."""
        for place, text in self.texts.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(text)
        for image in self._images:
            (folder / self._place(image)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(image, folder / self._place(image))

    def write_with_navigation(self, folder: Path) -> None:
        """Write the pages and images as files, and the navigation as a file of its own."""
        self.write(folder)
        (folder / NAVIGATION).write_text(json.dumps(self.navigation()))

    def navigation(self) -> Navigation:
        """Return MkDocs' ``nav``: the headings of ``docs/README.md``, and the pages below each."""
        found: Navigation = [{"Home": self._place(self._repository / _INDEX)}]
        for section in re.split(r"^## ", self._index(), flags=re.MULTILINE)[1:]:
            title, _, body = section.partition("\n")
            found.append({title: list(self._section(body))})
        return found

    def _section(self, body: str) -> Iterator[Any]:
        for line in body.splitlines():
            if entry := _ENTRY.match(line):
                path = (self._repository / "docs" / entry[2]).resolve()
                place = self._place(path)
                below = path.name == "README.md" and [
                    self._place(page) for page in sorted(path.parent.glob("*.md")) if page != path
                ]
                yield {_title(entry[1]): [place, *below] if below else place}
            elif line == GENERATED:
                yield from self._generated_entries()

    def _generated_entries(self) -> Iterator[Any]:
        folders: dict[str, list[Any]] = {}
        for page in self._made:
            folder = str(Path(page.path).parent)
            if page.path.endswith("index.md"):
                folders[folder] = [page.path]
                yield {page.title: folders[folder]}
            elif folder in folders:
                folders[folder].append({page.title: page.path})
            else:
                yield {page.title: page.path}

    def _index(self) -> str:
        return (self._repository / _INDEX).read_text()

    def _place(self, path: Path) -> str:
        """Return the path of the repository's file below the site."""
        name = path.relative_to(self._repository).as_posix()
        if name.startswith("docs/"):
            return name.removeprefix("docs/")
        return (
            name if "/" not in name and name.endswith(".md") and name != "README.md" else f"files/{name}.md"
        )

    def _text(self, path: Path) -> str:
        if path.suffix != ".md":
            return _file_page(path, path.relative_to(self._repository).as_posix())
        text = path.read_text()
        if path == self._repository / _INDEX:
            text = text.replace(GENERATED, "\n".join(_summaries(self._made)))
        parts = _FENCED.split(text)
        parts[::2] = [_NAMED.sub(lambda match: _link_text(path, match), part) for part in parts[::2]]
        parts[::2] = [_LINK.sub(lambda match: self._link(path, match), part) for part in parts[::2]]
        return "".join(parts)

    def _link(self, page: Path, match: re.Match[str]) -> str:
        target, fragment = match[1], match[2] or ""
        if ":" in target or target.startswith("reference/"):
            return match[0]
        path = (page.parent / target).resolve()
        if path.is_dir() and (path / "README.md").exists():
            path /= "README.md"
        if path.suffix in _IMAGES and path.is_relative_to(self._repository / "docs"):
            self._images.add(path)
        elif path.exists():
            self._wanted.append(path)
        start = Path(self._place(page)).parent
        return Path(os.path.relpath(self._place(path), start)).as_posix() + fragment


def _link_text(page: Path, match: re.Match[str]) -> str:
    """Return the text of a link to a page: its title, because readers of the site do not see file names."""
    path = page.parent / match[1]
    return f"[{path.read_text().partition(chr(10))[0].removeprefix('# ')}]" if path.exists() else match[0]


def _title(text: str) -> str:
    return text.replace("`", "")


def _summaries(made: Iterable[Page]) -> Iterator[str]:
    """Yield a line for each generated page, except those below another."""
    parents = {str(Path(page.path).parent) for page in made if page.path.endswith("index.md")}
    for page in made:
        if page.path.endswith("index.md") or str(Path(page.path).parent) not in parents:
            yield f"* [{page.title}]({page.path}): {page.about.partition('. ')[0].rstrip('.')}"


def _file_page(path: Path, name: str) -> str:
    """Return a page that shows a file, or the files of a folder."""
    if path.is_file():
        return f"# {name}\n\n{_block(path)}\n"
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    parts = (f"## {file.relative_to(path)}\n\n{_block(file)}" for file in files)
    return "\n\n".join([f"# {name}", *parts]) + "\n"


def _block(path: Path) -> str:
    return f"````{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text().rstrip()}\n````"
