"""Find API objects of any version in texts: JSON or YAML, one or many, in lists or not, mixed with other text.

An object stays JSON text until its kind is known to be needed, because dumps may be large.
"""

import json
import mmap
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import orjson
from dra_shared.boundedfiles import MOST, size_text
from dra_shared.jsontext import MAX_DEPTH, dumps

from dra_worlds.files import Text
from dra_worlds.yamllists import values

# Where an object or list begins and ends in kubectl's text output, which indents what is in it: `kubectl cluster-info
# dump`.
_BEGIN = re.compile(rb"^\{\r?$", re.MULTILINE)
_END = b"\n}"
_BOM = b"\xef\xbb\xbf"
# A bracket may be part of a shell prompt.
_START = re.compile(rb"\s*(\{|\[(?=\s*[{\]]))?")
_SPACE = re.compile(r"[\s,]*")

# A list as kubectl and jq write it. Its items are one level below, each from a line of its own to another.
_INDENTED_LIST = re.compile(rb'\{\r?\n( +)"[a-z]')
# The start of a list or array, up to its first item. Fields of an object may be called items too.
_LIST_START = re.compile(
    r'(?:\{\s*(?:"(?:apiVersion|kind)"\s*:\s*"[^"]*"\s*,\s*|"metadata"\s*:\s*\{[^{}]*\}\s*,\s*)*"items"\s*:\s*)?\['
)
_KIND = re.compile(r'"kind"\s*:\s*"(\w+)"')
_VERSION = re.compile(r'"apiVersion"\s*:\s*"([^"]+)"')
# The most bytes of a file that are kept in memory at once, and the limit for the fields around a list's items.
_RELEASED = 16 << 20
_HEAD = 4 << 10
_IN_PARTS = 1 << 30
_TOO_DEEP = f"an object in it has more than {MAX_DEPTH} levels"
_COUNTED = 256
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))


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
    """An object as JSON. If ``stored`` is set, the object was read from a server and is complete."""

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
    """Yield the objects in a text. Errors are appended to ``problems``."""
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        # PowerShell writes UTF-16 when its output is redirected to a file.
        text = text[:].decode("utf-16", errors="replace").encode()
    elif text[:3] == _BOM:
        text = text[3:]
    if b"\0" in text[:_HEAD]:
        problems.append(f"{where}: it is not text, and is ignored")
        return iter(())
    found = _documents(where, text, problems)
    return _release_pages(found, text) if isinstance(text, mmap.mmap) else found


def _documents(where: str, text: Text, problems: list[str]) -> Iterator[Document]:
    start = _START.match(text)
    if isinstance(text, mmap.mmap) and (listed := _INDENTED_LIST.match(text)) is not None:
        yield from _large_list(where, text, len(listed[1]), problems)
    elif start is not None and start[1]:
        yield from _json(where, text, start[1] == b"[", problems)
    elif _BEGIN.search(text):
        yield from _pieces(where, text, problems)
    else:
        yield from _yaml(where, text, problems)


def _release_pages(found: Iterable[Document], text: mmap.mmap) -> Iterator[Document]:
    """Yield the documents. Release the file's pages from memory now and then."""
    read = 0
    for document in found:
        yield document
        read += len(memoryview(document.data))
        if read > _RELEASED and hasattr(mmap, "MADV_DONTNEED"):
            text.madvise(mmap.MADV_DONTNEED)
            read = 0


def _large_list(where: str, text: mmap.mmap, indent: int, problems: list[str]) -> Iterator[Document]:
    """Yield the items of an indented list one at a time, so that the list is never in memory as a whole."""
    own = b" " * indent
    # kubectl sorts keys: a list's version comes before its items, and its kind after them.
    ends = text[:_HEAD], text[-_HEAD:]
    kind, version = (
        next((each for end in ends if (each := _after(end, b'\n%b"%b": "' % (own, name)))), "")
        for name in (b"kind", b"apiVersion")
    )
    listed = _Head(kind or "List", version or "v1")
    for item in _indented_items(text, own * 2):
        if item is None:
            problems.append(f"{where}: it ends within an object; that object is missing")
            return
        head = _indented_head(item, own)
        if head is not None and not _is_too_deep(item):
            yield Document(*head, where)
        else:
            yield from _valid_objects(where, item, listed, problems)


def _indented_items(text: mmap.mmap, indent: bytes) -> Iterator[bytes | None]:
    """Yield the text of each item, from brace to brace. Yield None at the end if the last one is incomplete."""
    begin, end = b"\n%b{" % indent, b"\n%b}" % indent
    part = b""
    for position in range(0, len(text), _RELEASED):
        part += text[position : position + _RELEASED]
        ended = 0
        while (start := part.find(begin, ended)) >= 0 and (closed := part.find(end, start)) >= 0:
            ended = closed + len(end)
            yield part[start:ended]
        part = part[ended:]
        if len(part) > MOST:
            break
    if begin in part:
        yield None


def _indented_head(item: bytes, own: bytes) -> tuple[str, str, bytes, bool] | None:
    """Return an item's version and kind, its text, and whether it has a uid, without parsing all of it.
    Return None if it has to be parsed.
    """
    key, inner = b"\n%b" % (own * 3), b"\n%b" % (own * 4)
    version, kind = (_after(item, b'%b"%b": "' % (key, name)) for name in (b"apiVersion", b"kind"))
    meta = item.find(b'%b"metadata": {' % key)
    if not version or not kind or kind.endswith("List") or meta < 0:
        return None
    uid = item.find(b'%b"uid": "' % inner, meta, item.find(key + b"}", meta) % (len(item) + 1))
    return version, kind, item, uid >= 0


def _after(item: bytes, begin: bytes) -> str:
    """Return the text between the first occurrence of ``begin`` and the next quote."""
    start = item.find(begin)
    return "" if start < 0 else item[start + len(begin) : item.find(b'"', start + len(begin))].decode()


def _json(where: str, text: Text, bare: bool, problems: list[str]) -> Iterator[Document]:
    try:
        if bare:
            for raw in msgspec.json.decode(text, type=list[msgspec.Raw]):
                yield from _valid_objects(where, raw, None, problems)
        else:
            yield from _objects(where, text, None, problems)
    except msgspec.ValidationError:
        # JSON that is not an API object.
        return
    except (msgspec.DecodeError, RecursionError):
        if _BEGIN.search(text):
            yield from _pieces(where, text, problems)
        else:
            yield from _one_by_one(where, text, problems)


def _pieces(where: str, text: Text, problems: list[str]) -> Iterator[Document]:
    """Yield the objects of a text that has other text, such as logs, between them."""
    begin, missing = _BEGIN.search(text), 0
    while begin is not None:
        following = _BEGIN.search(text, begin.end())
        stop = len(text) if following is None else following.start()
        end = text.find(_END, begin.start(), stop)
        if end >= 0:
            yield from _valid_objects(where, text[begin.start() : end + len(_END)], None, problems)
        elif _LIST_START.match(
            text[begin.start() : min(stop, begin.start() + _HEAD)].decode(errors="replace")
        ):
            yield from _one_by_one(where, text[begin.start() : stop], problems)
        else:
            # A log may have an unclosed brace.
            missing += 1
        begin = following
    if missing:
        more = f" and {missing - 1} more are" if missing > 1 else " is"
        problems.append(f"{where}: it ends within an object; that object{more} missing")


def _one_by_one(where: str, text: Text, problems: list[str]) -> Iterator[Document]:
    """Yield JSON values that follow each other, or the items of a broken or truncated list, as far as they can
    be read.
    """
    if len(text) > _IN_PARTS:
        problems.append(f"{where}: it is not valid, and too large to search for the valid objects in it")
        return
    yield from _values(where, text[:].decode(errors="replace"), problems)


def _values(where: str, text: str, problems: list[str]) -> Iterator[Document]:
    position, listed = 0, None
    scan = json.JSONDecoder().raw_decode
    while (position := _end_of_space(text, position)) < len(text):
        try:
            value, position = scan(text, position)
        except (ValueError, RecursionError) as error:
            start = _LIST_START.match(text, position) if listed is None else None
            if start is None:
                problems.append(f"{where}: {_how_it_ends(error, text)}")
                return
            kind, version = (found.search(start[0]) for found in (_KIND, _VERSION))
            listed = _Head(kind[1] if kind else "List", version[1] if version else "v1")
            position = start.end()
        else:
            yield from _valid_objects(where, dumps(value), listed, problems)


def _end_of_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space is not None else position


def _how_it_ends(error: Exception, text: str) -> str:
    if isinstance(error, RecursionError):
        return f"{_TOO_DEEP}; everything after it is ignored"
    if isinstance(error, json.JSONDecodeError):
        unfinished = error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip())
        if unfinished:
            return "it ends within an object; that object is missing"
    return f"{_reason(error)}; everything after it is ignored"


def _yaml(where: str, text: Text, problems: list[str]) -> Iterator[Document]:
    for value, listed in values(where, text, problems):
        yield from _valid_objects(where, dumps(value), _Head(*listed) if listed else None, problems)


def _valid_objects(
    where: str, data: bytes | msgspec.Raw, listed: _Head | None, problems: list[str]
) -> Iterator[Document]:
    """Yield the documents as :func:`_objects` does. Skip values that are not API objects, and report broken ones."""
    try:
        yield from _objects(where, data, listed, problems)
    except msgspec.ValidationError as error:
        if name := _api_object(data):
            problems.append(f"{where}: {name} cannot be read: {_reason(error)}")
    except msgspec.DecodeError as error:
        problems.append(f"{where}: an object in it is broken: {_reason(error)}")
    except RecursionError:
        problems.append(f"{where}: {_TOO_DEEP}")


def _api_object(data: bytes | msgspec.Raw) -> str:
    """Return the kind and name of an object with broken metadata; empty if it is not an API object."""
    value = orjson.loads(bytes(data))
    if not isinstance(value, dict):
        return ""
    kind, version, meta = value.get("kind"), value.get("apiVersion"), value.get("metadata")
    if not isinstance(kind, str) or not isinstance(version, str) or not isinstance(meta, dict):
        return ""
    return f"{kind} {meta.get('name')}"


def _objects(
    where: str, data: Text | msgspec.Raw, listed: _Head | None, problems: list[str]
) -> Iterator[Document]:
    head = _heads.decode(data)
    kind, version = head.kind, head.api_version
    if listed is not None and not kind and listed.kind is not None:
        # The items of a typed list lack apiVersion and kind.
        kind, version = listed.kind.removesuffix("List"), listed.api_version
    if not kind or not version:
        if kind and head.metadata is not None:
            problems.append(f"{where}: a {kind} without apiVersion is ignored")
        return
    if head.items is not None and kind.endswith("List"):
        for raw in head.items:
            yield from _valid_objects(where, raw, head, problems)
        return
    if len(memoryview(data)) > MOST:
        problems.append(f"{where}: a {kind} is larger than {size_text(MOST)} and ignored")
        return
    own = data[:] if isinstance(data, mmap.mmap) else data
    if _is_too_deep(bytes(own)):
        problems.append(f"{where}: {_TOO_DEEP}")
        return
    stored = head.metadata is not None and bool(head.metadata.uid)
    yield Document(version, kind, own, stored, where)


def _is_too_deep(data: bytes) -> bool:
    """True if an object has more levels than an API server accepts."""
    # Brackets in strings count too, so that the sum is an estimate, which is fast.
    brackets, depth = data.translate(None, _NO_BRACKETS), 0
    for start in range(0, len(brackets), _COUNTED):
        part = brackets[start : start + _COUNTED]
        opened = part.count(b"{") + part.count(b"[")
        if depth + opened > MAX_DEPTH:
            break
        depth = max(0, depth + 2 * opened - len(part))
    else:
        return False
    try:
        dumps(orjson.loads(data))
    except ValueError:
        return True
    return False


def _reason(error: Exception) -> str:
    return str(error).replace("\n", " ")
