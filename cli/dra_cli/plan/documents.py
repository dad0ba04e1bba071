"""API objects in texts: JSON or YAML, one or many, in lists or not, of any version, among anything else.

An object stays JSON until its kind is known to matter: a large dump is read object by object.
"""

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import orjson
from dra_shared.yamltext import YamlError, load_all

from dra_cli.plan.files import Text

# An object or list in kubectl's text output, which indents what is in it: `kubectl cluster-info dump`.
_OBJECT = re.compile(rb"^\{\r?$.*?^\}\r?$", re.MULTILINE | re.DOTALL)
_MANAGED = re.compile(r"^( *)(- )?managedFields: *(\[\])?$", re.MULTILINE)

# A list as kubectl and jq write it. Its items are one level below, each from a line of its own to another.
_INDENTED_LIST = re.compile(rb'\{\r?\n( +)"[a-z]')
_RELEASED = 16 << 20


class _Meta(msgspec.Struct, gc=False):
    uid: str | None = None


class _Head(msgspec.Struct, rename="camel", gc=False):
    kind: str | None = None
    api_version: str | None = None
    metadata: _Meta | None = None
    items: list[msgspec.Raw] | None = None


_heads = msgspec.json.Decoder(_Head)


@dataclass(frozen=True, slots=True)
class Document:
    """An object as JSON. ``stored``: a server has stored it, so that it is complete."""

    api_version: str
    kind: str
    data: bytes | msgspec.Raw
    stored: bool
    where: str

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The API version in its group."""
        return self.api_version.rpartition("/")[2]


def documents(where: str, text: Text, problems: list[str]) -> Iterator[Document]:
    """The objects of a text; what cannot be read is named in ``problems``."""
    if isinstance(text, mmap.mmap):
        listed = _INDENTED_LIST.match(text)
        if listed is not None:
            yield from _large_list(where, text, len(listed[1]), problems)
            return
        text = text[:]
    start = text.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start in (b"{", b"["):
        yield from _json(where, text, problems)
    elif re.search(rb"^\{\r?$", text, re.MULTILINE):
        yield from _pieces(where, text, problems)
    else:
        yield from _yaml(where, text, problems)


def _large_list(where: str, text: mmap.mmap, indent: int, problems: list[str]) -> Iterator[Document]:
    """The items of an indented list, one at a time: a part of the file that is done with leaves memory again."""
    own = b" " * indent
    kind = re.search(rb'^%b"kind": "(\w+)"' % own, text, re.MULTILINE)
    version = re.search(rb'^%b"apiVersion": "([^"]+)"' % own, text, re.MULTILINE)
    listed = _Head(
        kind[1].decode() if kind is not None else "List", version[1].decode() if version is not None else "v1"
    )
    begin, end = b"\n%b{" % (own * 2), b"\n%b}" % (own * 2)
    released = ended = 0
    while (start := text.find(begin, ended)) >= 0:
        closed = text.find(end, start)
        if closed < 0:
            problems.append(f"{where}: it ends within an object; that one is missing")
            return
        ended = closed + len(end)
        try:
            yield from _objects(where, text[start:ended], listed)
        except msgspec.ValidationError:
            continue
        except msgspec.DecodeError as error:
            problems.append(f"{where}: an object in it is broken: {_reason(error)}")
        if ended - released > _RELEASED and hasattr(mmap, "MADV_DONTNEED"):
            pages = (ended - released) // mmap.PAGESIZE * mmap.PAGESIZE
            text.madvise(mmap.MADV_DONTNEED, released, pages)
            released += pages


def _json(where: str, text: bytes, problems: list[str]) -> Iterator[Document]:
    try:
        if text.lstrip()[:1] == b"[":
            for raw in msgspec.json.decode(text, type=list[msgspec.Raw]):
                yield from _objects(where, raw, None)
            return
        yield from _objects(where, text, None)
    except msgspec.ValidationError:
        # JSON, but no object of the API.
        return
    except msgspec.DecodeError as error:
        if _OBJECT.search(text):
            yield from _pieces(where, text, problems)
        else:
            problems.append(f"{where}: {_reason(error)}; nothing of it is used")


def _pieces(where: str, text: bytes, problems: list[str]) -> Iterator[Document]:
    """Objects one after the other, with other text such as logs between them."""
    ended = 0
    for found in _OBJECT.finditer(text):
        ended = found.end()
        try:
            yield from _objects(where, found.group(), None)
        except msgspec.ValidationError:
            continue
        except msgspec.DecodeError as error:
            problems.append(f"{where}: an object in it is broken: {_reason(error)}")
    if re.search(rb"^\{\r?$", text[ended:], re.MULTILINE):
        problems.append(f"{where}: it ends within an object; that one is missing")


def _yaml(where: str, text: bytes, problems: list[str]) -> Iterator[Document]:
    try:
        plain = _without_managed_fields(text.decode())
    except UnicodeDecodeError:
        problems.append(f"{where}: not UTF-8 text; nothing of it is used")
        return
    try:
        for document in load_all(plain):
            if isinstance(document.value, dict):
                yield from _objects(where, orjson.dumps(document.value), None)
    except (YamlError, TypeError) as error:
        problems.append(f"{where}: {_reason(error)}; what comes after it is not used")
    except msgspec.ValidationError:
        return


def _objects(where: str, data: bytes | msgspec.Raw, listed: _Head | None) -> Iterator[Document]:
    head = _heads.decode(data)
    kind, version = head.kind, head.api_version
    if listed is not None and not kind and listed.kind is not None:
        # Items of a list of one kind do not say theirs.
        kind, version = listed.kind.removesuffix("List"), listed.api_version
    if not kind or not version:
        return
    if head.items is not None and kind.endswith("List"):
        for raw in head.items:
            try:
                yield from _objects(where, raw, head)
            except msgspec.ValidationError:
                continue
        return
    stored = head.metadata is not None and bool(head.metadata.uid)
    yield Document(version, kind, data, stored, where)


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


def _reason(error: Exception) -> str:
    return str(error).replace("\n", " ")
