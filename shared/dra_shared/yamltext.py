"""Parse YAML like Kubernetes, to the JSON value that Go's library (go.yaml.in/yaml/v2) creates.

Values are built from libyaml's events, without an intermediate tree and without recursion, so that a
document's depth, aliases and size are checked before values are created. The limits are Go's if Go has one:

* nesting: Go allows 10,000 levels, we allow :data:`~dra_shared.jsontext.MAX_DEPTH`;

* aliases: Go's limit for the share of a document that comes from aliases;

* flow collections and tag directives, for which libyaml takes quadratic time: our own limits.
"""

import base64
import binascii
import copy
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from dra_shared.jsontext import MAX_DEPTH
from dra_shared.repeatedkeys import RepeatedKeys

_GO_DEPTH = 10_000
_FLOW_STEPS = 100_000_000
_TAG_DIRECTIVES = 1000
# The share of decoded values that may come from aliases: 99 of 100 in documents up to the first size, falling
# to one in ten from the second.
_FEW, _MANY = 400_000, 4_000_000
_MERGE = "<<"
_TAG = "tag:yaml.org,2002:"
_SHORT = {f"{_TAG}{name}": f"!!{name}" for name in ("str", "bool", "int", "float", "null", "binary")}
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NUMERIC = frozenset("+-.0123456789")
_DECIMAL = re.compile(r"[1-9][0-9]{0,17}")
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|[0-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES = {"0x": 16, "0o": 8, "0b": 2}
# Longer ones overflow a float64 too.
_DIGITS = 400
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlError(ValueError):
    """The text is not a valid YAML document, or exceeds a limit. The message is Go's, without its ``yaml: ``."""


class Repeated(NamedTuple):
    """A repeated key of a mapping, and the line (from 1) of its value."""

    key: Any
    line: int


@dataclass(frozen=True, slots=True)
class Document:
    """One document's JSON value, its repeated keys in order, and the line (from 1) at which it begins."""

    value: Any
    repeated: list[Repeated]
    line: int = 1


def load(data: bytes | str) -> Document:
    """Return the first document, or null if there is none.

    Raises:
        YamlError: the text is malformed, exceeds a limit, or is not a JSON value.
    """
    return next(load_all(data), Document(None, []))


def load_all(data: bytes | str) -> Iterator[Document]:
    """Yield the documents, each parsed on demand.

    Raises:
        YamlError: the text is malformed, exceeds a limit, or is not a JSON value.
    """
    if _occurrences(data, "%TAG") > _TAG_DIRECTIVES:
        raise YamlError(f"more than {_TAG_DIRECTIVES} %TAG directives")
    builder: _Builder | None = None
    line = 0
    try:
        for event in yaml.parse(data, Loader=_Loader):
            kind = type(event)
            if kind is yaml.DocumentStartEvent:
                builder, line = _Builder(), 0
            elif kind is yaml.DocumentEndEvent:
                assert builder is not None
                yield Document(builder.value, builder.repeated, line or 1)
                builder = None
            elif builder is not None:
                line = line or (event.start_mark.line + 1 if event.start_mark else 1)
                builder.take(event)
    except _TooDeep:
        # Go's scanner reports its own limit, which a document can only exceed with this many brackets.
        opened = _occurrences(data, "[") + _occurrences(data, "{")
        limit = _GO_DEPTH if opened > _GO_DEPTH else MAX_DEPTH
        raise YamlError(f"exceeded max depth of {limit}") from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(_problem(error)) from error


def _occurrences(data: bytes | str, text: str) -> int:
    return data.count(text) if isinstance(data, str) else data.count(text.encode())


def _problem(error: Exception) -> str:
    # As in Go's library (go.yaml.in/yaml/v2/decode.go, fail): lines count from zero except in its scanner's errors, and
    # line zero is omitted.
    place, context = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    line = 0
    if place and place.line:
        line = place.line + isinstance(error, yaml.scanner.ScannerError)
    elif context:
        line = context.line
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return f"line {line}: {problem}" if line else problem


class _TooDeep(Exception):
    pass


@dataclass(slots=True)
class _Anchored:
    """A named value, and the size of an alias of it: decoded values, levels, repeated keys."""

    decoded_before: int
    repeated_before: int
    value: Any = None
    decoded: int = 0
    height: int = 0
    repeated: list[Repeated] = field(default_factory=list)
    open: bool = True


class _Open:
    """A list or mapping whose end was not reached. ``height`` is the number of levels below it so far."""

    __slots__ = (
        "anchored",
        "event",
        "has_key",
        "height",
        "items",
        "key",
        "merged",
        "merges",
        "pairs",
        "values",
    )

    def __init__(self, event: yaml.CollectionStartEvent, anchored: _Anchored | None) -> None:
        self.event = event
        self.anchored = anchored
        self.items: list[Any] | None = [] if type(event) is yaml.SequenceStartEvent else None
        self.values: dict[str, Any] = {}
        # All pairs in order, from the first repeated key on.
        self.pairs: list[tuple[str, Any]] | None = None
        self.merged: list[dict[str, Any]] = []
        self.key: Any = None
        self.has_key = False
        self.merges = False
        self.height = 0


class _Builder:
    """Builds one document's value from its events."""

    def __init__(self) -> None:
        self.value: Any = None
        self.repeated: list[Repeated] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._decoded = 1
        self._aliased = 0
        self._flow = 0
        self._flow_steps = 0

    def take(self, event: Any) -> None:
        """Add an event of the document."""
        if self._flow:
            self._flow_steps += self._flow
            if self._flow_steps > _FLOW_STEPS:
                raise YamlError("document contains excessive nesting")
        # Both parsers create events of exactly these types.
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._scalar(event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._start(event)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._end()
        elif kind is yaml.AliasEvent:
            self._alias(event)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._decoded += 1
        if self._aliased:
            self._check_aliases()
        text: str = event.value
        if event.tag:
            value = _convert_tagged(event)
        elif not event.implicit[0]:
            value = text
        elif text == _MERGE and self._wants_key():
            self._open[-1].merges = self._open[-1].has_key = True
            return
        else:
            value = _plain_value(text)
        if event.anchor is not None:
            self._close_anchor(self._anchor(event.anchor), value, 0)
        self._add(value, event, 0)

    def _check_aliases(self) -> None:
        if (
            self._aliased > 100
            and self._decoded > 1000
            and self._aliased > self._decoded * _share(self._decoded)
        ):
            raise YamlError("document contains excessive aliasing")

    def _wants_key(self) -> bool:
        return bool(self._open) and self._open[-1].items is None and not self._open[-1].has_key

    def _anchor(self, name: str) -> _Anchored:
        made = _Anchored(self._decoded - 1, len(self.repeated))
        self._anchors[name] = made
        return made

    def _close_anchor(self, anchored: _Anchored, value: Any, height: int) -> None:
        anchored.value, anchored.height, anchored.open = value, height, False
        anchored.decoded = self._decoded - anchored.decoded_before
        anchored.repeated = self.repeated[anchored.repeated_before :]

    def _start(self, event: yaml.CollectionStartEvent) -> None:
        self._decoded += 1
        if self._aliased:
            self._check_aliases()
        if len(self._open) >= MAX_DEPTH:
            raise _TooDeep
        if event.flow_style:
            self._flow += 1
        anchored = self._anchor(event.anchor) if event.anchor is not None else None
        self._open.append(_Open(event, anchored))

    def _end(self) -> None:
        ended = self._open.pop()
        if ended.event.flow_style:
            self._flow -= 1
        value = ended.items if ended.items is not None else _mapping(ended)
        height = ended.height + 1
        if ended.anchored is not None:
            self._close_anchor(ended.anchored, value, height)
        self._add(value, ended.event, height)

    def _alias(self, event: yaml.AliasEvent) -> None:
        named = self._anchors.get(event.anchor or "")
        if named is None:
            raise YamlError(f"unknown anchor '{event.anchor}' referenced")
        if named.open:
            raise YamlError(f"anchor '{event.anchor}' value contains itself")
        self._decoded += named.decoded + 1
        self._aliased += named.decoded
        self._check_aliases()
        if len(self._open) + named.height > MAX_DEPTH:
            raise _TooDeep
        self.repeated += named.repeated
        self._add(copy_deep(named.value), event, named.height)

    def _add(self, value: Any, event: yaml.Event, height: int) -> None:
        """Add a value, which begins with the event, to the innermost list or mapping."""
        if not self._open:
            self.value = value
            return
        parent = self._open[-1]
        if height > parent.height:
            parent.height = height
        if parent.items is not None:
            parent.items.append(value)
        elif not parent.has_key:
            if type(value) is not str:
                _key(value, event)
            parent.key, parent.has_key = value, True
        else:
            self._pair(parent, value, event)

    def _pair(self, parent: _Open, value: Any, event: yaml.Event) -> None:
        parent.has_key = False
        if parent.merges:
            parent.merges = False
            parent.merged += _merge_sources(value)
            return
        key = parent.key if type(parent.key) is str else _key(parent.key, event)
        if key in parent.values:
            self.repeated.append(Repeated(parent.key, _line(event) + 1))
            parent.pairs = parent.pairs or [*parent.values.items()]
        if parent.pairs is not None:
            parent.pairs.append((key, value))
        parent.values[key] = value


def _line(event: yaml.Event) -> int:
    assert event.start_mark is not None
    return event.start_mark.line


def _share(decoded: int) -> float:
    if decoded <= _FEW:
        return 0.99
    return max(0.1, 0.99 - 0.89 * (decoded - _FEW) / (_MANY - _FEW))


def _merge_sources(value: Any) -> list[dict[str, Any]]:
    """Return the mappings of a merge key. The first one that has a key wins."""
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in found):
        raise YamlError("map merge requires map or sequence of maps as the value")
    return found


def _mapping(ended: _Open) -> dict[str, Any]:
    if ended.merged:
        merged: dict[str, Any] = {}
        for one in reversed(ended.merged):
            merged.update(one)
        return {**merged, **ended.values}
    return ended.values if ended.pairs is None else RepeatedKeys(ended.pairs)


def _key(value: Any, event: yaml.Event) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, dict | list):
        raise YamlError(f"line {_line(event) + 1}: a key must be text")
    return str(value)


def copy_deep(value: Any) -> Any:
    """Return a deep copy of value."""
    copies = [value]
    pending: list[Any] = [copies]
    while pending:
        parent = pending.pop()
        for place, below in parent.items() if isinstance(parent, dict) else enumerate(parent):
            if isinstance(below, dict | list):
                parent[place] = copy.copy(below)
                pending.append(parent[place])
    return copies[0]


def _plain_value(text: str) -> Any:
    """Return the value of a scalar without quotes and tags."""
    return _number(text) if text[:1] in _NUMERIC else _WORDS.get(text, text)


def _number(text: str) -> Any:
    """Parse a text that may be a number: an integer of 64 bits, else a float64, else text."""
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _INTEGER.fullmatch(text):
        found = _integer(text)
        if found is not None:
            return found
        text = text.replace("_", "")
    if not _FLOAT.fullmatch(text):
        return text
    value = float(text)
    return value if math.isfinite(value) else text


def _integer(text: str) -> int | None:
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    base = _BASES.get(digits[:2])
    if base is not None:
        digits = digits[2:]
    elif len(digits) > 1 and digits[0] == "0":
        base = 8
    if not digits or len(digits) > _DIGITS:
        return None
    try:
        value = sign * int(digits, base or 10)
    except ValueError:
        return None  # 089 is a float.
    return value if -(1 << 63) <= value < 1 << 64 else None


def _convert_tagged(event: yaml.ScalarEvent) -> Any:
    """Return the value of a scalar with a tag. Unknown tags are ignored."""
    tag = _SHORT.get(event.tag or "")
    if tag is None or tag == "!!str":
        return event.value
    if tag == "!!binary":
        try:
            return base64.b64decode(re.sub(r"[\r\n]", "", event.value), validate=True).decode(
                "utf-8", "replace"
            )
        except (binascii.Error, ValueError):
            raise YamlError("!!binary value contains invalid base64 data") from None
    value = _plain_value(event.value)
    found = _tag_of(value)
    if tag == "!!float" and found == "!!int":
        return float(value)
    if found != tag:
        raise YamlError(f"cannot decode {found} `{event.value}` as a {tag}")
    return value


def _tag_of(value: Any) -> str:
    if isinstance(value, bool):
        return "!!bool"
    names = {int: "!!int", float: "!!float", type(None): "!!null"}
    return names.get(type(value), "!!str")
