"""The names, versions and verbs of built-in kinds, from the schema data (``dra_shared.api.schema``)."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from dra_shared.api.schema import kinds_document
from dra_shared.version import Version, release

from dra_apiserver.kindkit.kind import ALL_VERBS, Kind, api_version
from dra_apiserver.kindkit.serving import FieldSelection, Printer, ScalePaths, SelectableField, Subresource

_STATUS_VERBS = frozenset({"get", "patch", "update"})
_DEPRECATED = re.compile(r"deprecated in v(\d+)\.(\d+)\+")


def groups() -> list[tuple[str, Sequence[str]]]:
    """Return the groups in the order of discovery, each with its versions, the preferred one first."""
    return [(group["name"], group["versions"]) for group in _document()["groups"]]


def named_kind(group: str, plural: str) -> Kind:
    """Return a kind with its names and verbs from the schema data, but without behaviour.

    Raises:
        KeyError: the schema data has no such kind.
    """
    return _parse(_entries()[group, plural])


def in_version(kind: Kind, kubernetes: Version) -> Kind | None:
    """Return the kind as a version of Kubernetes serves and stores it; None if that version does not have the kind."""
    has = release(kubernetes)

    def serves(version: str, resource: str) -> bool:
        return has.serves(api_version(kind.group, version), resource)

    versions = tuple(version for version in kind.all_versions if serves(version, kind.plural))
    if not versions:
        return None
    subresources = {
        version: frozenset(name for name in kind.subresources if serves(version, f"{kind.plural}/{name}"))
        for version in versions
    }
    stored = has.storage.get(f"{kind.group}/{kind.plural}", kind.storage_version)
    return replace(
        kind,
        versions=versions,
        all_versions=versions,
        storage_version=stored if f"{kind.group}/{kind.plural}" in has.apart else kind.storage_version,
        release=replace(
            kind.release,
            kubernetes=kubernetes,
            hashed_version=stored,
            subresources={
                version: names
                for version, names in subresources.items()
                if len(names) < len(kind.subresources)
            },
        ),
        field_selection=replace(
            kind.field_selection,
            fields={
                label: one
                for label, one in kind.field_selection.fields.items()
                if has.selects(f"{kind.group}/{kind.plural}", label)
            },
        ),
        printers=_choose_printers(kind, kubernetes),
        deprecated={
            version: has.deprecated.get((api_version(kind.group, version), kind.plural), text)
            for version, text in kind.deprecated.items()
            if _is_deprecated(text, kubernetes)
        },
    )


def _choose_printers(kind: Kind, kubernetes: Version) -> Mapping[str, Printer]:
    older = (printer for until, printer in sorted(kind.older_printers.items()) if kubernetes < until)
    found = next(older, None)
    return kind.printers if found is None else {"": found}


def _is_deprecated(text: str, kubernetes: Version) -> bool:
    since = _DEPRECATED.search(text)
    return since is None or kubernetes >= (int(since[1]), int(since[2]))


def selectable_field(label: str, path: str, absent: str = "") -> SelectableField:
    """Return a selectable field with the dotted ``path`` to its value. For ``a|b``, b is read if a is absent."""
    return SelectableField(label, tuple(tuple(option.split(".")) for option in path.split("|")), absent)


@functools.cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(kinds_document())
    return document


@functools.cache
def _entries() -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(entry["group"], entry["plural"]): entry for entry in _document()["kinds"]}


def all_resources() -> list[tuple[str, str]]:
    """Return group and plural of every kind in the schema data, in its order."""
    return list(_entries())


def _verbs(entry: Sequence[str] | str) -> frozenset[str]:
    return ALL_VERBS if entry == "all" else frozenset(entry)


def _subresource(entry: Mapping[str, Any], name: str, value: Any) -> Subresource:
    group, version, kind = entry["group"], entry["storageVersion"], entry["kind"]
    if value == "status":
        return Subresource(name, _STATUS_VERBS, group, version, kind)
    if isinstance(value, list):
        return Subresource(name, frozenset(value), group, version, kind)
    return Subresource(
        name,
        frozenset(value["verbs"]),
        value.get("group", group),
        value.get("version", version),
        value["kind"],
    )


def _selectable(entry: Mapping[str, Any]) -> dict[str, SelectableField]:
    fields = {"metadata.name": selectable_field("metadata.name", "metadata.name")}
    if entry["namespaced"]:
        fields["metadata.namespace"] = selectable_field("metadata.namespace", "metadata.namespace")
    for label, (path, absent) in entry.get("selectableFields", {}).items():
        fields[label] = selectable_field(label, path, absent)
    return fields


def _parse(entry: Mapping[str, Any]) -> Kind:
    own = f"{entry['group']}/{entry['plural']}"
    stored_group, _, stored_plural = entry.get("storedAs", own).partition("/")
    scale = entry.get("scale")
    return Kind(
        group=entry["group"],
        kind=entry["kind"],
        plural=entry["plural"],
        singular=entry["singular"],
        namespaced=entry["namespaced"],
        versions=tuple(entry["versions"]),
        all_versions=tuple(entry["versions"]),
        storage_version=entry["storageVersion"],
        storage=(stored_group, stored_plural),
        verbs=_verbs(entry["verbs"]),
        short_names=tuple(entry.get("shortNames", ())),
        categories=tuple(entry.get("categories", ())),
        subresources={
            name: _subresource(entry, name, value) for name, value in entry.get("subresources", {}).items()
        },
        field_selection=FieldSelection(fields=_selectable(entry)),
        scale=None if scale is None else ScalePaths(*scale),
        deprecated=entry.get("deprecated", {}),
    )
