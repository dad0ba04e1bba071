"""YAML texts, document by document, and the lists among them item by item.

Documents are separated as upstream's ``splitYAMLDocument`` does (``k8s.io/apimachinery/pkg/util/yaml/decoder.go``).
A list that kubectl wrote is as large as a cluster: its items are read one at a time, so that one that is broken or cut
off does not take the others with it.
"""

import re
from collections.abc import Iterator
from typing import Any

from dra_shared.yamltext import YamlError, load_all

from dra_cli.plan.files import Text

_SEPARATOR = re.compile(rb"^---[^\n]*\n?", re.MULTILINE)
# What may come before a list's items, and how far these are indented.
_LIST = re.compile(
    rb"\s*(?:(?:apiVersion|kind): [^\n]*\n|metadata:[^\n]*\n(?: [^\n]*\n)*+)*+items:[ \r]*\n( *)- "
)
_VERSION = re.compile(rb"^apiVersion: *(\S+)", re.MULTILINE)
_KIND = re.compile(rb"^kind: *(\w+)", re.MULTILINE)
_TAIL = re.compile(rb"^[A-Za-z]", re.MULTILINE)
_MANAGED = re.compile(r"^( *)(- )?managedFields: *(\[\])?$", re.MULTILINE)

#: A list's kind and API version, which its items need not repeat.
Listed = tuple[str, str]


def values(where: str, text: Text, problems: list[str]) -> Iterator[tuple[Any, Listed | None]]:
    """The documents' values, of lists each item's; ``problems`` gets what is broken."""
    start = 0
    for found in _SEPARATOR.finditer(text):
        yield from _document(where, text, start, found.start(), problems)
        start = found.end()
    yield from _document(where, text, start, len(text), problems)


def _document(
    where: str, text: Text, start: int, end: int, problems: list[str]
) -> Iterator[tuple[Any, Listed | None]]:
    head = _LIST.match(text, start, end)
    if head is None:
        for value in _loaded(where, text[start:end], problems):
            if isinstance(value, dict):
                yield value, None
        return
    begin = b"\n%b- " % head[1]
    # kubectl sorts keys: a list's kind comes after its items.
    after = text.rfind(b"\nkind: ", head.end(), end)
    listed = _listed(head[0] + (text[after:end] if after >= 0 else b""))
    position = head.start(1) - 1
    while (following := text.find(begin, position + 1, end)) >= 0:
        yield from _item(where, text[position:following], listed, problems)
        position = following
    if listed is None:
        problems.append(f"{where}: it ends within an object; that one is missing")
        return
    last = text[position:end]
    tail = _TAIL.search(last)
    yield from _item(where, last[: tail.start()] if tail is not None else last, listed, problems)


def _listed(text: bytes) -> Listed | None:
    kind, version = _KIND.search(text), _VERSION.search(text)
    if kind is None:
        return None
    return kind[1].decode(), version[1].decode() if version is not None else "v1"


def _item(
    where: str, text: bytes, listed: Listed | None, problems: list[str]
) -> Iterator[tuple[Any, Listed | None]]:
    for items in _loaded(where, text, problems):
        for value in items:
            if isinstance(value, dict):
                yield value, listed


def _loaded(where: str, text: bytes, problems: list[str]) -> list[Any]:
    try:
        return [document.value for document in load_all(_without_managed_fields(text.decode()))]
    except UnicodeDecodeError:
        problems.append(f"{where}: not UTF-8 text; nothing of it is used")
    except (YamlError, TypeError) as error:
        problems.append(f"{where}: an object in it is broken: {str(error).replace(chr(10), ' ')}")
    return []


def _without_managed_fields(text: str) -> str:
    """The YAML without managedFields, half of what kubectl writes and of no use here."""
    parts, position = [], 0
    while (found := _MANAGED.search(text, position)) is not None:
        parts.append(text[position : found.start()])
        indent = len(found[1]) + len(found[2] or "")
        position = found.end() + 1
        if found[2]:
            parts.append(f"{found[1]}-\n")
        if not found[3]:
            position = _end_of_block(text, position, indent)
    return "".join([*parts, text[position:]]) if parts else text


def _end_of_block(text: str, position: int, indent: int) -> int:
    """Where the lines end that belong to a key at that indentation; its list may begin at the same."""
    while position < len(text):
        line = text[position : text.find("\n", position) % (len(text) + 1)]
        bare = line.lstrip(" ")
        depth = len(line) - len(bare)
        if bare and (depth < indent or (depth == indent and not bare.startswith("- "))):
            return position
        position += len(line) + 1
    return position
