"""Columns of policies, bindings and webhooks (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import UNSET
from dra_apiserver.common.objectcells import age, name, part


def webhooks(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), len(obj.get("webhooks") or ()), age(obj, now)]


def admission_policy(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    kind = part(spec, "paramKind")
    text = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET
    return [name(obj), len(spec.get("validations") or spec.get("mutations") or ()), text, age(obj, now)]


def admission_binding(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    reference = part(spec, "paramRef")
    text = UNSET
    if reference:
        text = reference.get("name") or "*"
        text = f"{reference['namespace']}/{text}" if reference.get("namespace") else f"*/{text}"
    return [name(obj), spec.get("policyName", ""), text, age(obj, now)]
