"""Read manifests: YAML or JSON, one document or many, from files, folders or standard input."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dra_shared.boundedfiles import read_standard_input, read_text
from dra_shared.errors import UserError
from dra_shared.repeatedkeys import RepeatedKeys
from dra_shared.yamltext import Repeated, YamlError, load_all

_SUFFIXES = (".yaml", ".yml", ".json")


class Manifest(dict[str, Any]):
    """An object from a manifest, and its position, such as ``pods.yaml:12``.

    ``repeated`` has the keys that occur more than once in a mapping of the document. The last value counts, as with
    kubectl.
    """

    def __init__(
        self, obj: dict[str, Any], where: str = "", text: str = "", repeated: Sequence[Repeated] = ()
    ) -> None:
        super().__init__(obj)
        self.where = where
        self.repeated = repeated
        self._text = text

    def place(self, field: str) -> str:
        """Return the position of a field such as ``.spec.foo``, or of the object if the field is not found."""
        name, _, line = self.where.rpartition(":")
        key = re.sub(r"\[[^]]*\]", "", field).rpartition(".")[2]
        if key and line.isdecimal():
            found = re.compile(rf"^[\s-]*[\"']?{re.escape(key)}[\"']?\s*:", re.MULTILINE)
            for number, text in enumerate(self._text.splitlines()[int(line) - 1 :], int(line)):
                if found.match(text):
                    return f"{name}:{number}"
        return self.where


def load(sources: list[str], *, recursive: bool = False) -> list[Manifest]:
    """Return the objects in ``sources``, in order: paths of files or folders, or ``-`` for standard input.

    As with kubectl, the folders of a folder are only read if ``recursive`` is set (``ExpandPathsToFileVisitors`` in
    k8s.io/cli-runtime/pkg/resource/visitor.go).

    Raises:
        UserError: a source cannot be read, is not YAML, or has something that is not an API object.
    """
    objects: list[Manifest] = []
    for source in sources:
        for name, text in _texts(source, recursive):
            objects.extend(_objects(name, text))
    if not objects:
        folders = not recursive and any(Path(source).is_dir() for source in sources)
        hint = "; --recursive reads its subfolders, too" if folders else ""
        raise UserError(f"no objects in {', '.join(sources)}{hint}")
    return objects


def parse(name: str, text: str) -> list[Manifest]:
    """Return the objects of a text. ``name`` stands for the text in errors.

    Raises:
        UserError: it is not YAML, or has something that is not an API object.
    """
    return list(_objects(name, text))


def _texts(source: str, recursive: bool) -> Iterator[tuple[str, str]]:
    path = Path(source)
    try:
        if source == "-":
            yield "standard input", read_standard_input().decode()
        elif path.is_dir():
            for file in _files(path, recursive):
                yield str(file), read_text(file)
        else:
            yield source, read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        name = "standard input" if source == "-" else source
        raise UserError(f"cannot read {name}: {reason}") from error


def _files(folder: Path, recursive: bool) -> Iterator[Path]:
    """Yield the manifests of a folder in the order of their names."""
    for path in sorted(folder.iterdir()):
        if recursive and path.is_dir() and not path.is_symlink():
            yield from _files(path, recursive)
        elif path.suffix in _SUFFIXES:
            yield path


def _objects(name: str, text: str) -> Iterator[Manifest]:
    try:
        documents = list(load_all(text))
    except YamlError as error:
        raise UserError(f"{name} is not valid YAML: {error}") from error
    for document in documents:
        value, where = _plain(document.value), f"{name}:{document.line}"
        if value is None:
            continue
        if not isinstance(value, dict) or "kind" not in value or "apiVersion" not in value:
            raise UserError(f"{where} holds a document without apiVersion and kind")
        if str(value["kind"]).endswith("List") and isinstance(value.get("items"), list):
            if not all(isinstance(item, dict) for item in value["items"]):
                raise UserError(f"{where} holds a list with an item that is not an object")
            yield from (Manifest(item, where, text, document.repeated) for item in value["items"])
        else:
            yield Manifest(value, where, text, document.repeated)


def _plain(value: Any) -> Any:
    """Replace mappings that record their repeated keys by ordinary ones, in place where possible."""
    pending: list[Any] = [holder := [value]]
    while pending:
        parent = pending.pop()
        for place, below in parent.items() if isinstance(parent, dict) else enumerate(parent):
            if isinstance(below, RepeatedKeys):
                parent[place] = below = dict(below)
            if isinstance(below, dict | list):
                pending.append(below)
    return holder[0]
