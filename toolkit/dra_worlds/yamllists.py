"""Read YAML texts document by document, and the lists in them item by item.

Documents are separated as upstream's ``splitYAMLDocument`` does
(``k8s.io/apimachinery/pkg/util/yaml/decoder.go``). A list that kubectl wrote may be as large as a cluster.
Its items are read one at a time, so that a broken or truncated item does not affect the others.
"""

import re
from collections.abc import Iterator
from typing import Any

from dra_shared.boundedfiles import MOST, size_text
from dra_shared.yamltext import YamlError, load_all

from dra_worlds.files import Text

# Documents end at a separator, and at an unindented line that cannot be part of them, because a whole session may be
# pasted.
_SEPARATOR = re.compile(
    rb"^(?:---[^\n]*|(?P<foreign>(?!\s)(?:"
    # Several words without a colon after one of them.
    rb"(?![\s#%{}\[\]\"'?&!*|>@`,-]|\.\.\.|[^\n]*:(?:\s|$))\S+[ \t][^\n]*"
    # A bash prompt of RHEL, and a prompt without a command.
    rb"|\[\w[^\]\n,\"']*@[^\]\n,\"']*\][$#%>][^\n]*"
    rb"|(?![#{\[\"'])\S*[$%>][ \t\r]*$"
    # Any prompt before a command, but not a comment after a value.
    rb"|(?!#)(?:(?!:\s)[^\n]){0,200}?(?:[$%>#]|\xe2\x9d\xaf|\xe2\x9e\x9c)[ \t]*(?:kubectl|oc)[ \t][^\n]*"
    # A line that looks like a comment may be a root prompt. kubectl's output starts with the key apiVersion.
    rb"|#[ \t]*(?:kubectl|oc)[ \t][^\n]*(?=\n(?:apiVersion:|\{))))"
    rb")\n?",
    re.MULTILINE,
)
_SHOWN = 60
_HEAD = {"apiVersion", "kind", "metadata"}
# The text before a list's items. The group is their indentation.
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
    """Yield the value of each document, and for a list the value of each item.

    Append errors and skipped lines to ``problems``.
    """
    start, skipped, first = 0, 0, b""
    for found in _SEPARATOR.finditer(text):
        yield from _document(where, text, start, found.start(), problems)
        start = found.end()
        if found["foreign"] is not None:
            skipped, first = skipped + 1, first or found["foreign"]
    yield from _document(where, text, start, len(text), problems)
    if skipped:
        shown = first[:_SHOWN].decode(errors="replace").strip()
        more = f" and {skipped - 1} more" if skipped > 1 else ""
        problems.append(f"{where}: lines that are not YAML are skipped: {shown!r}{more}")


def _document(
    where: str, text: Text, start: int, end: int, problems: list[str]
) -> Iterator[tuple[Any, Listed | None]]:
    if start == end:
        return
    head = _LIST.match(text, start, end)
    if head is None:
        for value in _load_part(where, text, start, end, problems):
            if isinstance(value, dict):
                yield value, None
        return
    begin = b"\n%b- " % head[1]
    # kubectl sorts keys: a list's kind comes after its items.
    after = text.rfind(b"\nkind: ", head.end(), end)
    listed = _list_kind(head[0] + (text[after:end] if after >= 0 else b""))
    position = head.start(1) - 1
    keys: dict[str, set[str]] = {}
    while (following := text.find(begin, position + 1, end)) >= 0:
        for value, of in _item(where, text, position, following, listed, problems):
            keys[str(value.get("kind"))] = set(value)
            yield value, of
        position = following
    if listed is not None:
        tail = _TAIL.search(text, position + 1, end)
        yield from _item(where, text, position, tail.start() if tail is not None else end, listed, problems)
    else:
        yield from _last(where, text, position, end, keys, problems)


def _last(
    where: str, text: Text, start: int, end: int, keys: dict[str, set[str]], problems: list[str]
) -> Iterator[tuple[Any, Listed | None]]:
    """Yield the last item of a truncated list, unless it lacks fields that all others of its kind have."""
    found = [item for item in _item(where, text, start, end, None, []) if _is_whole(item[0], keys)]
    if found:
        problems.append(f"{where}: the list has no end; its last object may be incomplete")
    else:
        problems.append(f"{where}: it ends within an object; that object is missing")
    yield from found


def _is_whole(value: dict[str, Any], keys: dict[str, set[str]]) -> bool:
    """True if an object has the fields that others of its kind have, or at least more than its name."""
    others = keys.get(str(value.get("kind")))
    return others <= value.keys() if others is not None else bool(value.keys() - _HEAD)


def _list_kind(text: bytes) -> Listed | None:
    kind, version = _KIND.search(text), _VERSION.search(text)
    if kind is None:
        return None
    return kind[1].decode(), version[1].decode() if version is not None else "v1"


def _item(
    where: str, text: Text, start: int, end: int, listed: Listed | None, problems: list[str]
) -> Iterator[tuple[Any, Listed | None]]:
    for items in _load_part(where, text, start, end, problems):
        for value in items:
            if isinstance(value, dict):
                yield value, listed


def _load_part(where: str, text: Text, start: int, end: int, problems: list[str]) -> list[Any]:
    if end - start > MOST:
        problems.append(f"{where}: an object in it is larger than {size_text(MOST)}, and is ignored")
        return []
    try:
        part = _without_managed_fields(text[start:end].decode())
        return [document.value for document in load_all(part)]
    except UnicodeDecodeError:
        problems.append(f"{where}: not UTF-8 text, and is ignored")
    except (YamlError, TypeError) as error:
        problems.append(f"{where}: an object in it is broken: {str(error).replace(chr(10), ' ')}")
    return []


def _without_managed_fields(text: str) -> str:
    """Remove managedFields, which are half of kubectl's output and not used here."""
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
    """Return the position after the lines of a key at the indentation; its list may be indented the same."""
    while position < len(text):
        line = text[position : text.find("\n", position) % (len(text) + 1)]
        bare = line.lstrip(" ")
        depth = len(line) - len(bare)
        if bare and (depth < indent or (depth == indent and not bare.startswith("- "))):
            return position
        position += len(line) + 1
    return position
