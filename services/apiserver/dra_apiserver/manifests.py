"""Manifests as a server would store them: with defaults, in the version that the scheduler reads."""

import functools
from collections.abc import Mapping
from typing import Any

from dra_shared.api import resources
from dra_shared.jsontext import dumps

from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.kinds.kind import Kind
from dra_apiserver.registry import Registry
from dra_apiserver.schema import DecodeError, decode, default

Json = dict[str, Any]


def converted(registry: Registry, known: Kind, version: str, obj: Json, wanted: str) -> Json:
    """Return ``obj`` with defaults, in version ``wanted`` if the kind has that version.

    Raises:
        ValueError: a field is of another type than the kind's.
    """
    # As a request's body, which may have a number where a quantity is meant.
    try:
        obj = decode(registry, known, version, dumps(obj), field_validation="Ignore").obj
    except DecodeError as error:
        raise ValueError(str(error)) from error
    default(known, version, obj)
    if version != wanted and wanted in known.versions:
        to_storage(known, obj, version)
        if known.storage_version != wanted:
            convert(known, obj, wanted)
    return obj


def completed(registry: Registry, obj: Json) -> Json:
    """Return the object with defaults, those of the pods that its template makes included.

    Objects of unknown kinds stay as they are.

    Raises:
        ValueError: a field is of another type than the kind's.
    """
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    kind = str(obj.get("kind"))
    known = registry.known_kind(group, version, kind)
    if known is None:
        return obj
    made = converted(registry, known, version, obj, read_version(group, kind) or version)
    template = _template(made.get("spec"))
    pods = registry.known_kind("", "v1", "Pod")
    if template is not None and pods is not None:
        # Some defaults are those of pods alone, not of templates: requests from limits, for instance.
        pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": template["spec"]}
        template["spec"] = converted(registry, pods, "v1", pod, "v1")["spec"]
    return made


def read_version(group: str, kind: str) -> str | None:
    """Return the version in which services read objects of the kind, None for kinds that none reads."""
    return _read_versions().get((group, kind))


@functools.cache
def _read_versions() -> Mapping[tuple[str, str], str]:
    found = [each for each in vars(resources).values() if isinstance(each, resources.Resource)]
    return {(each.group, each.kind): each.version for each in found}


def _template(spec: Any) -> Json | None:
    """The template of a workload's pods, below that of a CronJob's Job."""
    if not isinstance(spec, dict):
        return None
    if isinstance(job := spec.get("jobTemplate"), dict):
        return _template(job.get("spec"))
    template = spec.get("template")
    return template if isinstance(template, dict) and isinstance(template.get("spec"), dict) else None
