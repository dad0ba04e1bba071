"""Kinds for tests: a built-in one, and a custom one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds import catalog
from dra_apiserver.kinds.custom.definitions import kind_of_definition


def built_in(group: str, plural: str) -> Kind:
    """Return a built-in kind, whether it is served or not."""
    return next(kind for kind in catalog.KINDS if (kind.group, kind.plural) == (group, plural))


def widget(schema: Mapping[str, Any], **version: Any) -> Kind:
    """Return the kind ``widgets.example.com`` with one version of this schema. ``version`` has its other fields."""
    names = {"kind": "Widget", "plural": "widgets"}
    v1 = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [v1]}
    kind = kind_of_definition({"metadata": {"name": "widgets.example.com"}, "spec": spec})
    assert kind is not None
    return kind
