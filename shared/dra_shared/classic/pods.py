"""Convert pods and pod templates: `source` of a pod's resource claims (Kubernetes 1.26 to 1.30)."""

import copy
from typing import Any

from dra_shared.classic.fields import entries
from dra_shared.classic.notes import Notes
from dra_shared.jsontypes import JsonObject

SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
POD_MAKERS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): ("spec",),
    ("", "PodTemplate"): ("template", "spec"),
    ("", "ReplicationController"): ("spec", "template", "spec"),
    ("apps", "DaemonSet"): ("spec", "template", "spec"),
    ("apps", "Deployment"): ("spec", "template", "spec"),
    ("apps", "ReplicaSet"): ("spec", "template", "spec"),
    ("apps", "StatefulSet"): ("spec", "template", "spec"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
    ("batch", "Job"): ("spec", "template", "spec"),
}
"""The path to the pod spec, for each group and kind that is a pod or creates pods."""


def pod_spec(obj: JsonObject) -> tuple[str, JsonObject] | None:
    """Return the path and the pod spec of an object that is a pod or creates pods, else None."""
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    path = POD_MAKERS.get((group, str(obj.get("kind"))))
    found: Any = obj
    for name in path or ():
        found = found.get(name) if isinstance(found, dict) else None
    return (".".join(path), found) if path and isinstance(found, dict) else None


def has_source(obj: JsonObject) -> bool:
    """True if a pod or a pod template names claims with `source`."""
    found = pod_spec(obj)
    claims = entries(found[1].get("resourceClaims")) if found else ()
    return any(isinstance(entry, dict) and "source" in entry for entry in claims)


def without_source(obj: JsonObject, notes: Notes) -> JsonObject:
    """Return the object with the fields of `source` moved to where v1 has them."""
    changed = copy.deepcopy(obj)
    found = pod_spec(changed)
    if found is None:
        return changed
    path, spec = found
    for index, entry in enumerate(entries(spec.get("resourceClaims"))):
        if isinstance(entry, dict) and "source" in entry:
            _lift(entry, f"{path}.resourceClaims[{index}]", notes)
    return changed


def _lift(entry: JsonObject, path: str, notes: Notes) -> None:
    source = entry.pop("source")
    for name, value in (source if isinstance(source, dict) else {}).items():
        if name in SOURCES:
            entry[name] = value
            notes.note_moved(f"{path}.source.{name}", f"{path}.{name}")
        else:
            notes.note_lost(f"{path}.source.{name}", "a source names a claim or a template")
