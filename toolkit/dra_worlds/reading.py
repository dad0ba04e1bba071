"""Read a world: typed objects of the kinds that affect scheduling, in the versions that the scheduler uses."""

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import orjson
from dra_scheduler.plan.manifests import Manifests, Typed
from dra_scheduler.plan.objects import BY_KIND, Objects
from dra_scheduler.plan.values import check_values
from dra_shared.api.codec import convert, decode
from dra_shared.api.meta import Object
from dra_shared.api.priorityclass import PriorityClass
from dra_shared.api.resources import PODS, PRIORITY_CLASSES, Resource

from dra_worlds.around import WorldAround
from dra_worlds.documents import Document, documents
from dra_worlds.files import texts
from dra_worlds.implied import with_implied_nodes
from dra_worlds.sharing import Shared

_replace = msgspec.structs.replace


def read(source: str, problems: list[str]) -> Objects:
    """Read the world in a file, folder or archive. Objects that cannot be read are reported in ``problems``.

    Raises:
        UserError: the source cannot be read at all.
    """
    return with_implied_nodes(world(from_source(source, problems), problems), problems)


def from_source(source: str, problems: list[str]) -> Iterator[Document]:
    """Read the documents of a file, folder or archive."""
    for where, text in texts(source, problems):
        yield from documents(where, text, problems)


def world(found: Iterable[Document], problems: list[str]) -> Objects:
    """Return the world of these documents. If an object occurs twice, the later one counts."""
    return _with_priorities(Objects().with_objects(to_objects(found, problems)))


def _with_priorities(objects: Objects) -> Objects:
    """Set the priority of pods that no server has stored from their class, as the Priority plugin does."""
    classes = objects.of(PRIORITY_CLASSES)
    usual = min((each for each in classes.values() if each.global_default), key=_value, default=None)
    changed = []
    for pod in objects.of(PODS).values():
        found = classes.get(pod.spec.priority_class_name) if pod.spec.priority_class_name else usual
        if pod.spec.priority is None and found is not None:
            policy = pod.spec.preemption_policy or found.preemption_policy
            spec = _replace(pod.spec, priority=found.value, preemption_policy=policy)
            changed.append((PODS, _replace(pod, spec=spec)))
    return objects.with_objects(changed) if changed else objects


def _value(priority_class: PriorityClass) -> int:
    return priority_class.value


def to_objects(found: Iterable[Document], problems: list[str]) -> Iterator[Typed]:
    """Yield the objects that affect scheduling. Objects that cannot be read are reported in ``problems``."""
    shared = Shared()
    for document in found:
        resource = BY_KIND.get((document.group, document.kind))
        if resource is None:
            continue
        try:
            obj = _to_object(resource, document)
            check_values(resource, obj)
        except (msgspec.DecodeError, ValueError, TypeError, KeyError, AttributeError) as error:
            problems.append(f"{document.where}: {_name_of(document)} cannot be read: {error}")
            continue
        if not obj.metadata.name and not obj.metadata.generate_name:
            problems.append(f"{document.where}: a {document.kind} without a name is left out")
            continue
        yield resource, shared.of(obj)


def _name_of(document: Document) -> str:
    """Return the object's kind, and its name if it has one."""
    try:
        meta = orjson.loads(bytes(document.data)).get("metadata") or {}
        name = "/".join(filter(None, (meta.get("namespace"), meta.get("name"))))
    except (ValueError, AttributeError, TypeError):
        name = ""
    return f"{document.kind} {name}" if name else f"a {document.kind}"


def _to_object(resource: Resource[Any], document: Document) -> Object:
    if document.stored and document.version == resource.version:
        obj: Object = decode(resource, document.data)
        if obj.metadata.namespace or not resource.namespaced:
            return obj
        return _in_default(obj)
    value = orjson.loads(bytes(document.data))
    value.setdefault("metadata", {})
    # Imported on demand: objects in the scheduler's own versions are read without the API server's code.
    from dra_apiserver import offline

    value = offline.convert_with_defaults(
        document.group, document.version, document.kind, value, resource.version
    )
    made: Object = convert(resource, value)
    return made if made.metadata.namespace or not resource.namespaced else _in_default(made)


def manifests(
    found: Iterable[Document],
    problems: list[str],
    objects: Objects,
    namespace: str | None = None,
    *,
    again: bool = True,
) -> Manifests:
    """Read objects as the API server of a cluster with ``objects`` would create them.

    Objects that cannot be read are reported in ``problems``. ``namespace`` is used for objects that name
    none. Without ``again`` objects that a server has stored are not changed.
    """
    values = []
    for document in found:
        value = orjson.loads(bytes(document.data))
        # The items of a list may lack apiVersion and kind.
        values.append((document.where, value | {"apiVersion": document.api_version, "kind": document.kind}))
    around = WorldAround(objects, (value for _, value in values), namespace, complete)
    made = Manifests(functools.partial(_admit, around, namespace or "", again))
    for where, value in values:
        try:
            made.add(value)
        except ValueError as error:
            problems.append(f"{where}: {error}")
    made.assumed = around.assumed
    return made


def complete(value: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the defaults that a server sets, in the version that the scheduler reads."""
    from dra_apiserver import offline

    value.setdefault("metadata", {})
    return offline.complete_object(value)


def all_admitted(values: list[dict[str, Any]], objects: Objects) -> list[dict[str, Any]]:
    """Return manifests as the API server of a cluster with ``objects`` would store them.

    Raises:
        ValueError: an object cannot be read.
    """
    from dra_apiserver import offline
    from dra_apiserver.manifests import Around

    around = WorldAround(objects, ())
    return offline.admit_all(values, Around(around.lookup, around.listing))


def _admit(around: WorldAround, namespace: str, again: bool, value: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the defaults of a server, and with the changes that admission makes to its pods."""
    from dra_apiserver import offline
    from dra_apiserver.manifests import Around

    made = complete(value)
    if value["metadata"].get("uid") and not again:
        return made
    around.about(value)
    return offline.admit_object(made, Around(around.lookup, around.listing, namespace))


def _in_default(obj: Object) -> Object:
    meta = msgspec.structs.replace(obj.metadata, namespace="default")
    return msgspec.structs.replace(obj, metadata=meta)
