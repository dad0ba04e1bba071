"""The kinds that the API server serves, and the fields of their objects, from the schema data."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds.catalog import KINDS
from dra_apiserver.openapi.descriptions import add_descriptions
from dra_shared.api.schema import schema_document

from tools.reference.markdown import Page, code, plain, table

_CORE = "core"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
# The groups whose types are in packages of their own.
_PACKAGES = {
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
Schema = Mapping[str, Any]


def pages() -> Iterator[Page]:
    """Return a table of all kinds, and then a page for each group with the fields of its kinds."""
    groups: dict[str, list[Kind]] = {}
    for kind in KINDS:
        groups.setdefault(kind.group, []).append(kind)
    ordered = sorted(groups, key=lambda group: (group != "resource.k8s.io", group != "", group))
    with_fields = [group for group in ordered if _documents(group, groups[group])]
    yield Page(
        "reference/kinds/index.md",
        "Kinds",
        "Every kind that the API server serves. How deep its rules go, and which service acts on it: "
        "[Kubernetes](../../kubernetes.md).",
        table(
            ["kind", "group", "versions", "short names", "scope", "subresources"],
            (_row(kind, kind.group in with_fields) for group in ordered for kind in groups[group]),
        ),
    )
    for group in with_fields:
        yield _group(group, groups[group])
    yield Page(
        f"reference/kinds/{_name(_META)}.md",
        "meta/v1",
        "What objects of all kinds have.",
        "\n\n".join(_types(_META, (), _document(_META))),
    )


def _row(kind: Kind, linked: bool) -> list[str]:
    about = (
        f"[{kind.kind}]({_page(kind.group)}#{kind.kind.lower()})"
        if linked and kind.kind in _kinds_of(kind)
        else kind.kind
    )
    return [
        about,
        kind.group or _CORE,
        ", ".join(kind.all_versions or kind.versions),
        ", ".join(map(code, kind.short_names)),
        "namespace" if kind.namespaced else "cluster",
        ", ".join(map(code, kind.subresources)),
    ]


def _group(group: str, kinds: list[Kind]) -> Page:
    parts: list[str] = []
    for package, document in _documents(group, kinds).items():
        named = [kind.kind for kind in kinds if kind.kind in document and _package(kind) == package]
        parts += _types(package, named, document)
    return Page(
        f"reference/kinds/{_page(group)}",
        group or _CORE,
        f"The fields of the kinds of `{group or _CORE}`, in the version that is stored, then the types that they have.",
        "\n\n".join(parts),
    )


def _types(package: str, first: tuple[str, ...] | list[str], document: Schema) -> Iterator[str]:
    """Return the types of a package: those of kinds first, then the others by name, without lists of objects."""
    others = sorted(name for name in document if name not in first and not _is_list(document[name]))
    for name in [*first, *others]:
        schema = add_descriptions(f"{package}.{name}", dict(document[name]))
        yield f"## {name}"
        yield plain(schema.get("description", ""))
        members = schema.get("properties") or {}
        required = schema.get("required") or ()
        rows = [
            [
                code(member) + (" (required)" if member in required else ""),
                _type(package, value),
                plain(value.get("description", "")),
            ]
            for member in schema.get("x-order") or members
            if (value := members.get(member))
        ]
        head = ["field", "type", ""]
        if not any(row[2] for row in rows):
            head, rows = head[:2], [row[:2] for row in rows]
        yield table(head, rows) if rows else _type(package, schema)


def _is_list(schema: Schema) -> bool:
    members = schema.get("properties") or {}
    return {"items", "metadata", "kind"} <= members.keys()


def _type(package: str, schema: Schema) -> str:
    """Return the text for a field's type, with a link to its description."""
    reference = schema.get("$ref") or next(
        (one["$ref"] for one in schema.get("allOf", ()) if "$ref" in one), ""
    )
    if reference:
        return _link(package, reference.rpartition("/")[2])
    if "items" in schema:
        return f"list of {_type(package, schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(package, schema['additionalProperties'])}"
    return str(schema.get("format") or schema.get("type") or "any value")


def _link(package: str, name: str) -> str:
    home, _, short = name.rpartition(".")
    if home == package:
        return f"[{short}](#{short.lower()})"
    page = _homes().get(home)
    return f"[{short}]({page}#{short.lower()})" if page and short in _document(home) else short


@cache
def _homes() -> Mapping[str, str]:
    """Return the page of each package that has a page."""
    return {_package(kind): _page(kind.group) for kind in KINDS if _kinds_of(kind)} | {
        _META: f"{_name(_META)}.md"
    }


@cache
def _document(package: str) -> Schema:
    loaded: Schema = json.loads(schema_document(package) or b"{}")
    return loaded


def _documents(group: str, kinds: list[Kind]) -> dict[str, Schema]:
    """Return the types of a group's stored versions, by package."""
    packages = dict.fromkeys(_package(kind) for kind in kinds)
    return {package: found for package in packages if (found := _document(package))}


def _kinds_of(kind: Kind) -> Schema:
    return _document(_package(kind))


def _package(kind: Kind) -> str:
    short = kind.group.partition(".")[0] or _CORE
    return f"{_PACKAGES.get(kind.group, f'io.k8s.api.{short}')}.{kind.storage_version}"


def _page(group: str) -> str:
    return f"{group or _CORE}.md"


def _name(package: str) -> str:
    return ".".join(package.split(".")[-2:])
