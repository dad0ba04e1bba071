"""Reading manifests: YAML or JSON, one document or many, from files, folders or standard input."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dra_shared.yamltext import YamlError, load_all

from dra_cli.errors import CommandError

_SUFFIXES = (".yaml", ".yml", ".json")


def load(sources: list[str]) -> list[dict[str, Any]]:
    """The objects in ``sources``, in order: paths of files or folders, or ``-`` for standard input.

    Raises:
        CommandError: a source cannot be read, is no YAML, or holds something that is no API object.
    """
    objects: list[dict[str, Any]] = []
    for source in sources:
        for name, text in _texts(source):
            objects.extend(_objects(name, text))
    if not objects:
        raise CommandError(f"no objects in {', '.join(sources)}")
    return objects


def parse(name: str, text: str) -> list[dict[str, Any]]:
    """The objects of a text; errors call it ``name``.

    Raises:
        CommandError: it is no YAML, or holds something that is no API object.
    """
    return list(_objects(name, text))


def _texts(source: str) -> Iterator[tuple[str, str]]:
    if source == "-":
        yield "standard input", sys.stdin.read()
        return
    path = Path(source)
    try:
        if path.is_dir():
            for file in sorted(path.iterdir()):
                if file.suffix in _SUFFIXES:
                    yield str(file), file.read_text()
        else:
            yield source, path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise CommandError(f"cannot read {source}: {reason}") from error


def _objects(name: str, text: str) -> Iterator[dict[str, Any]]:
    try:
        documents = [document.value for document in load_all(text)]
    except YamlError as error:
        raise CommandError(f"{name} is no valid YAML: {error}") from error
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict) or "kind" not in document or "apiVersion" not in document:
            raise CommandError(f"{name} holds a document without apiVersion and kind")
        if str(document["kind"]).endswith("List") and isinstance(document.get("items"), list):
            yield from document["items"]
        else:
            yield document
