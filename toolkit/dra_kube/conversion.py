"""Convert manifests of the older DRA APIs to the current API, and report on each field in a line."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import yaml
from dra_shared import classic
from dra_shared.classic.fields import subject_of
from dra_shared.classic.kinds import successor
from dra_shared.classic.notes import Note, find_lost
from dra_shared.errors import UserError
from dra_shared.jsontext import dumps

from dra_kube import manifests

INCOMPLETE = 3
"""The exit code if a field has no successor."""


def mapping(classes: Sequence[str], wanted: bool) -> Mapping[str, str] | None:
    """Return the device classes of extended resources from ``RESOURCE=CLASS``; None if extended resources stay.

    Raises:
        UserError: an entry is malformed.
    """
    found = {}
    for entry in classes:
        resource, equals, name = entry.partition("=")
        if not equals or "/" not in resource or not name:
            raise UserError(f"--class {entry}: want RESOURCE=CLASS, such as nvidia.com/gpu=gpu.nvidia.com", 2)
        found[resource] = name
    return found if found or wanted else None


class Converted(NamedTuple):
    """The converted manifests as text, a line for each old field, and the number of fields without a successor."""

    text: str
    notes: list[str]
    lost: int


def convert(files: Sequence[str], output: str, extended: Mapping[str, str] | None) -> Converted:
    """Convert the manifests in the files.

    Raises:
        UserError: a manifest cannot be read.
    """
    if output not in ("yaml", "json"):
        raise UserError(f"unknown output {output!r}: choose yaml or json", 2)
    loaded = manifests.load(list(files))
    conversion = classic.convert([dict(one) for one in loaded], extended)
    places = _Places(loaded)
    notes = [*_repeated_key_lines(loaded), *(f"{places.of(note)}{note}" for note in conversion.notes)]
    text = _json(conversion.objects) if output == "json" else _yaml(conversion.objects)
    return Converted(text, notes, len(find_lost(conversion.notes)))


def _repeated_key_lines(loaded: Sequence[manifests.Manifest]) -> Iterator[str]:
    """Yield a line for each repeated key. The items of a list have the repeated keys of their document."""
    found = [
        f"{manifest.where.rpartition(':')[0]}:{one.line}: the key {one.key!r} is repeated"
        for manifest in loaded
        for one in manifest.repeated
    ]
    for place in dict.fromkeys(found):
        yield f"{place}: this value is used, and the one before is not"


class _Places:
    """The positions in the manifests of the fields that notes are about."""

    def __init__(self, loaded: Sequence[manifests.Manifest]) -> None:
        self._sources = {subject_of(one): one for one in reversed(loaded)}
        self._starts = sorted(_line(one.where) for one in loaded)

    def of(self, note: Note) -> str:
        """Return ``file:line: `` of the field, or of its object if the field is not found; "" if neither is."""
        source = self._sources.get(note.subject)
        if source is None or not source.where:
            return ""
        name, start = _line(source.where)
        place = source.place(note.path)
        # The search may have found the field in a later document of the file, which is about another object.
        following = [line for file, line in self._starts if file == name and line > start]
        within = not following or _line(place)[1] < following[0]
        return f"{place if within else source.where}: "


def _line(where: str) -> tuple[str, int]:
    name, _, line = where.rpartition(":")
    return name, int(line) if line.isdecimal() else 0


def hint(obj: dict[str, Any]) -> str:
    """Return an addition to an error message if the object is of an older API, or ""."""
    became = successor(obj)
    return f": {became}; `dralab convert FILE` turns old manifests into today's" if became else ""


def _yaml(objects: Sequence[dict[str, Any]]) -> str:
    dump = [yaml.safe_dump(one, sort_keys=False, allow_unicode=True, width=110).rstrip() for one in objects]
    return "\n---\n".join(dump)


def _json(objects: Sequence[dict[str, Any]]) -> str:
    """Return one object as it is, and several as a List."""
    value = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return dumps(value, option=orjson.OPT_INDENT_2).decode()
