"""Defaults of replication controllers (upstream's `pkg/apis/core/v1/defaults.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kinds.pods.defaults import pod_template


def replication_controller(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        metadata = obj.setdefault("metadata", {})
        if not metadata.get("labels"):
            metadata["labels"] = dict(labels)
    spec.setdefault("replicas", 1)
    pod_template(spec.get("template"))
