"""Reading manifests: YAML or JSON, one document or many, from files, folders or standard input."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from dra_cli.errors import CommandError

_SUFFIXES = (".yaml", ".yml", ".json")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # PyYAML may lack its C part
    """YAML as Kubernetes reads it: a time stays text, ``=`` and ``<<`` mean nothing."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value", "tag:yaml.org,2002:merge")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


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
        documents = list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        problem = re.sub(r"\s+", " ", str(error))
        raise CommandError(f"{name} is no valid YAML: {problem}") from error
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict) or "kind" not in document or "apiVersion" not in document:
            raise CommandError(f"{name} holds a document without apiVersion and kind")
        if str(document["kind"]).endswith("List") and isinstance(document.get("items"), list):
            yield from document["items"]
        else:
            yield document
