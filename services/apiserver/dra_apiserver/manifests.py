"""Complete manifests as a server does before it stores them: with defaults, in the version that the scheduler reads."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from dra_shared.api import resources
from dra_shared.features import FeatureGates
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject
from dra_shared.refusals import REFUSED

from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.errors import GroupResource, StatusError, forbidden_error
from dra_apiserver.kindkit.behaviour import Plugin
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.strategy import Context, Listing, Lookup
from dra_apiserver.registry import Registry
from dra_apiserver.schema import DecodeError, decode, default


def convert_with_defaults(
    registry: Registry, known: Kind, version: str, obj: JsonObject, wanted: str
) -> JsonObject:
    """Return ``obj`` with defaults, in version ``wanted`` if the kind has that version.

    Raises:
        ValueError: a field is of another type than the kind's.
    """
    # Decode it like a request's body, in which a quantity may be a number.
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


def complete_object(registry: Registry, obj: JsonObject) -> JsonObject:
    """Return the object with defaults, including those of the pods of its template.

    Objects of unknown kinds stay as they are.

    Raises:
        ValueError: a field is of another type than the kind's.
    """
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    kind = str(obj.get("kind"))
    known = registry.known_kind(group, version, kind)
    if known is None:
        return obj
    made = convert_with_defaults(registry, known, version, obj, read_version(group, kind) or version)
    template = _template(made.get("spec"))
    pods = registry.known_kind("", "v1", "Pod")
    if template is not None and pods is not None:
        # Some defaults only apply to pods and not to templates, such as requests from limits.
        pod: JsonObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "pod"},
            "spec": template["spec"],
        }
        template["spec"] = convert_with_defaults(registry, pods, "v1", pod, "v1")["spec"]
    return made


# Fields of the given pod that admission plugins do not change here: scheduling a new pod does not depend on
# them.
_KEPT = ("automountServiceAccountToken", "nodeName")
_SET_BY_SERVERS = ("priority", "preemptionPolicy", "overhead")


class Around(NamedTuple):
    """The interface through which admission plugins find the objects of a cluster."""

    lookup: Lookup
    listing: Listing
    namespace: str = ""
    """The namespace of objects that name none."""
    disabled_plugins: frozenset[str] = frozenset()


def admit_all(
    registry: Registry, objects: Iterable[JsonObject], around: Around, gates: FeatureGates
) -> list[JsonObject]:
    """Return the objects of a request, completed and admitted.

    Admission plugins also find the other objects of the request.

    Raises:
        ValueError: a field is of another type than the kind's. The message names the kind.
    """
    made = []
    for obj in _items(objects):
        try:
            made.append(complete_object(registry, obj))
        except ValueError as error:
            raise ValueError(f"a {obj.get('kind')} cannot be read: {error}") from error
    within = _with_given(registry, made, around)
    return [admit_object(registry, obj, within, gates) for obj in made]


def _items(objects: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield the objects, and the items of lists.

    Raises:
        ValueError: an item is not an object.
    """
    for obj in objects:
        if str(obj.get("kind")).endswith("List") and isinstance(obj.get("items"), list):
            kind = {"apiVersion": obj.get("apiVersion"), "kind": str(obj["kind"]).removesuffix("List")}
            if not all(isinstance(item, dict) for item in obj["items"]):
                raise ValueError("an item of a list is no object")
            yield from _items(kind | item for item in obj["items"])
        else:
            yield obj


def _with_given(registry: Registry, objects: Iterable[JsonObject], around: Around) -> Around:
    """Return the cluster's objects, with these added or in place of those with the same names."""
    given: dict[tuple[str, str], dict[str, JsonObject]] = {}
    for obj in objects:
        group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
        kind, meta = registry.known_kind(group, version, str(obj.get("kind"))), obj.get("metadata") or {}
        if kind is not None:
            space = (meta.get("namespace") or "default") if kind.namespaced else ""
            given.setdefault((group, kind.plural), {})[f"{space}/{meta.get('name')}"] = obj

    def lookup(group: str, plural: str, namespace: str, name: str) -> JsonObject | None:
        found = given.get((group, plural), {}).get(f"{namespace}/{name}")
        return found if found is not None else around.lookup(group, plural, namespace, name)

    def listing(group: str, plural: str, namespace: str) -> list[bytes]:
        own = given.get((group, plural), {})
        others = [
            data
            for data in around.listing(group, plural, namespace)
            if not own or _key(orjson.loads(data)) not in own
        ]
        mine = [obj for key, obj in own.items() if not namespace or key.startswith(f"{namespace}/")]
        return [*map(orjson.dumps, mine), *others]

    return around._replace(lookup=lookup, listing=listing)


def _key(obj: JsonObject) -> str:
    meta = obj.get("metadata") or {}
    return f"{meta.get('namespace') or ''}/{meta.get('name')}"


def admit_object(registry: Registry, obj: JsonObject, around: Around, gates: FeatureGates) -> JsonObject:
    """Return a completed object with the additions of admission plugins to its pod, or to the pods of its template.

    A rejected pod is annotated with the message. Quotas are skipped because they depend on the pods that are
    created before. Policies and webhooks are skipped too.
    """
    kind = registry.known_kind("", "v1", "Pod")
    is_pod = (obj.get("apiVersion"), obj.get("kind")) == ("v1", "Pod")
    holder = obj if is_pod else _template(obj.get("spec"))
    if kind is None or holder is None or not isinstance(holder.get("spec"), dict):
        return obj
    meta = obj.get("metadata") or {}
    namespace = meta.get("namespace") or around.namespace or "default"
    if namespace == "default" and around.namespace:
        namespace = around.namespace
    pod = _new_pod(holder, meta, namespace)
    kept = {name: holder["spec"][name] for name in _KEPT if name in holder["spec"]}
    ctx = Context(
        kind=kind,
        version="v1",
        namespace=namespace,
        now="",
        features=gates,
        lookup=around.lookup,
        listing=around.listing,
        disabled_plugins=around.disabled_plugins,
    )
    own = holder.setdefault("metadata", {})
    try:
        _admit(pod, ctx, (*kind.admission.mutating, *kind.admission.validating))
    except StatusError as error:
        own["annotations"] = {**(own.get("annotations") or {}), REFUSED: error.message}
        return obj
    del pod["spec"]["automountServiceAccountToken"]
    holder["spec"] = {**pod["spec"], **kept}
    for field in ("annotations", "labels"):
        if pod["metadata"].get(field):
            own[field] = pod["metadata"][field]
    return obj


def _new_pod(holder: JsonObject, meta: JsonObject, namespace: str) -> JsonObject:
    """Return the pod as in a request, without fields that an API server has set."""
    spec = {name: value for name, value in holder["spec"].items() if name != "nodeName"}
    if meta.get("uid") and holder.get("metadata") is meta:
        for field in _SET_BY_SERVERS:
            spec.pop(field, None)
    # A token's volume has a random name. Decisions do not depend on it.
    spec["automountServiceAccountToken"] = False
    name = meta.get("name") or meta.get("generateName") or ""
    own = {**(holder.get("metadata") or {}), "name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": spec}


def _admit(pod: JsonObject, ctx: Context, plugins: Sequence[Plugin]) -> None:
    """Run the plugins.

    Raises:
        StatusError: the pod is rejected.
    """
    # A missing namespace may be created before the pod.
    space = ctx.lookup("", "namespaces", "", ctx.namespace) or {}
    if (space.get("metadata") or {}).get("deletionTimestamp"):
        text = f"unable to create new content in namespace {ctx.namespace} because it is being terminated"
        raise forbidden_error(GroupResource(ctx.kind.group, ctx.kind.plural), pod["metadata"]["name"], text)
    for name, plugin in plugins:
        if name not in ctx.disabled_plugins:
            plugin(pod, None, ctx, "CREATE")


def read_version(group: str, kind: str) -> str | None:
    """Return the version in which services read objects of the kind, or None if no service reads it."""
    return _read_versions().get((group, kind))


@functools.cache
def _read_versions() -> Mapping[tuple[str, str], str]:
    found = [each for each in vars(resources).values() if isinstance(each, resources.Resource)]
    return {(each.group, each.kind): each.version for each in found}


def _template(spec: Any) -> JsonObject | None:
    """Return the pod template of a workload, below that of the Job for a CronJob."""
    if not isinstance(spec, dict):
        return None
    if isinstance(job := spec.get("jobTemplate"), dict):
        return _template(job.get("spec"))
    template = spec.get("template")
    return template if isinstance(template, dict) and isinstance(template.get("spec"), dict) else None
