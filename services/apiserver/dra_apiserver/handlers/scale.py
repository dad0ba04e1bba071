"""The scale subresource: a Scale represents the object's numbers of replicas.

Upstream has a `ScaleREST` for each built-in kind, as in `pkg/registry/apps/deployment/storage/storage.go`,
and one for custom resources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from dra_shared.jsontypes import JsonObject
from dra_shared.selectors import SelectorError, label_selector

from dra_apiserver.api import Api
from dra_apiserver.equality import copy_object
from dra_apiserver.errors import GroupResource, bad_request, conflict, invalid, invalid_object, not_found
from dra_apiserver.handlers.bodies import read_body, reply
from dra_apiserver.handlers.mechanisms import mechanism
from dra_apiserver.handlers.options import WriteOptions, write_options
from dra_apiserver.handlers.patch import patch_type
from dra_apiserver.http import Request
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.serving import ScalePaths
from dra_apiserver.patch import APPLY_PATCH, track_update
from dra_apiserver.patch.scale import to_parent, to_scale
from dra_apiserver.registry import Registry
from dra_apiserver.rest import store
from dra_apiserver.rest.meta import check_name
from dra_apiserver.rest.write import Write
from dra_apiserver.storage import Record
from dra_apiserver.target import Target

_BUILT_IN = ScalePaths(".spec.replicas", ".status.replicas", "")
_UNSET = -(2**31)
_SCALE = Kind(
    group="autoscaling",
    kind="Scale",
    plural="scales",
    singular="scale",
    namespaced=True,
    versions=("v1",),
    storage_version="v1",
    storage=("autoscaling", "scales"),
)


def _steps(path: str) -> list[str]:
    return path.strip(".").split(".")


def _at(obj: Any, path: str) -> Any:
    for step in _steps(path) if path else ("",):
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _selector(kind: Kind, obj: JsonObject) -> str:
    if kind.unstructured:
        found = _at(obj, kind.scale.label_selector) if kind.scale is not None else ""
        return found if isinstance(found, str) else ""
    chosen = _at(obj, ".spec.selector") or {}
    try:
        return str(label_selector({"matchLabels": chosen} if kind.types.selects_by_labels else chosen))
    except SelectorError:
        return ""


def _scale_of(kind: Kind, obj: JsonObject) -> JsonObject:
    meta, paths = obj["metadata"], kind.scale or _BUILT_IN
    selector = _selector(kind, obj)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = _at(obj, paths.spec_replicas)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {
            "replicas": _at(obj, paths.status_replicas) or 0,
            **({"selector": selector} if selector else {}),
        },
    }


async def get_scale(api: Api, request: Request, target: Target) -> None:
    """Respond with the desired and actual number of the object's replicas."""
    record = api.store.get(target.resource, target.key)
    if record is None:
        raise not_found(target.qualified_resource, target.name)
    await reply(request, 200, await _present_scale(api, target, record))


async def _present_scale(api: Api, target: Target, record: Record) -> JsonObject:
    """Return the Scale of a stored object."""
    kind, persistence = target.kind, target.kind.persistence
    if persistence is None:
        return _scale_of(kind, record.object())
    await persistence.fetch([record.data], fresh=True)
    return _scale_of(kind, persistence.decode(record.data))


def _present(kind: Kind, current: Record, steps: list[str]) -> JsonObject:
    """Return the Scale for patches, with the managers of its replicas."""
    obj = current.object()
    scale = _scale_of(kind, obj)
    if kind.unstructured and _at(obj, ".".join(steps)) is None:
        scale["spec"]["replicas"] = _UNSET
    managed = to_scale(obj["metadata"].get("managedFields"), steps)
    if managed:
        scale["metadata"]["managedFields"] = managed
    return scale


async def put_scale(api: Api, request: Request, target: Target) -> None:
    """Set the desired number of the object's replicas, by an update or a patch of its Scale."""
    patching = request.method == "PATCH"
    media_type = patch_type(request, target.kind) if patching else ""
    applying = media_type == APPLY_PATCH
    options = write_options(request, "PatchOptions" if patching else "UpdateOptions", apply=applying)
    scaled = Target(_SCALE, "v1", target.namespace, target.name, "scale")
    wanted: _Body | _Patch
    if patching:
        wanted = _Patch(api.registry, scaled, await request.body(), media_type, options)
    else:
        sent = await read_body(api, request, "autoscaling", "v1", "Scale", options)
        check_name(scaled, sent["metadata"])
        wanted = _Body(sent)
    main = target._replace(subresource="")
    ctx = api.context(main, request.user, options.dry_run)._replace(subresource="scale")
    # Policies and webhooks see the Scale, not the object. The Scale's managers are then copied to the object.
    write = Write(
        api, request, main, ctx, options.manager, api.runner(target), tracked=False, registered=False
    )
    record, _ = await store.update(write, _ScaleUpdate(write, target, wanted, tracked=not applying))
    await reply(request, 200, await _present_scale(api, target, record))


class _Wanted(Protocol):
    """Computes the new Scale of a request from the current one."""

    def scale(self, seen: Callable[[], JsonObject], now: str) -> tuple[JsonObject, list[str]]:
        """Return the Scale, and texts for Warning headers.

        Raises:
            StatusError: the request is rejected.
        """


@dataclass(frozen=True, slots=True)
class _Body:
    """The Scale of a PUT."""

    sent: JsonObject

    def scale(self, seen: Callable[[], JsonObject], now: str) -> tuple[JsonObject, list[str]]:
        scale = copy_object(self.sent)
        scale["metadata"].pop("managedFields", None)
        return scale, []


@dataclass(frozen=True, slots=True)
class _Patch:
    """The patch of a PATCH."""

    registry: Registry
    scaled: Target
    body: bytes
    media_type: str
    options: WriteOptions

    def scale(self, seen: Callable[[], JsonObject], now: str) -> tuple[JsonObject, list[str]]:
        how = mechanism(self.registry, self.scaled, self.body, self.media_type, self.options)
        patched = how.patch(seen, now)
        scale = patched.obj
        scale["metadata"] = scale.get("metadata") or {}
        check_name(self.scaled, scale["metadata"])
        return scale, patched.warnings


@dataclass(frozen=True, slots=True)
class _ScaleUpdate:
    """Sets the number of replicas of a new Scale in the object (registry's `scaleUpdatedObjectInfo`).

    ``tracked`` is false if the Scale's managedFields are up to date already, as after an apply.
    """

    write: Write
    target: Target
    wanted: _Wanted
    tracked: bool

    @property
    def _steps(self) -> list[str]:
        return _steps((self.target.kind.scale or _BUILT_IN).spec_replicas)

    def new(self) -> JsonObject | None:
        return None

    def update(self, current: Record, old: JsonObject) -> JsonObject:
        seen = partial(_present, self.target.kind, current, self._steps)
        scale, warnings = self.wanted.scale(seen, self.write.ctx.now)
        self.write.request.warn(warnings)
        before = seen()
        self._track(before, scale)
        self._admit(before, scale)
        replicas = self._replicas(scale)
        self._check_uid(scale["metadata"], old["metadata"])
        return self._set_replicas(current.object(), scale["metadata"], replicas)

    def _track(self, before: JsonObject, scale: JsonObject) -> None:
        if not self.tracked:
            return
        if "managedFields" in before["metadata"]:
            scale["metadata"].setdefault("managedFields", before["metadata"]["managedFields"])
        write = self.write
        track_update(
            _SCALE, "v1", before, scale, manager=write.manager, subresource="scale", now=write.ctx.now
        )

    def _admit(self, before: JsonObject, scale: JsonObject) -> None:
        """Run policies and webhooks for the Scale. They may change its number."""
        write = self.write
        shown = {**before["metadata"], **scale["metadata"]}
        asked = copy_object({**before, "metadata": shown, "spec": scale.get("spec") or {}})
        write.api.judge(write.request, self.target, asked, before, write.ctx, "UPDATE")
        scale["spec"] = asked.get("spec") or {}

    def _replicas(self, scale: JsonObject) -> int:
        """Return the number of replicas in the new Scale.

        Raises:
            StatusError: 400 or 422, it is invalid.
        """
        replicas: int = (scale.get("spec") or {}).get("replicas", 0)
        if self.target.kind.unstructured and replicas == _UNSET:
            raise bad_request(f'the spec replicas field ".{".".join(self._steps)}" cannot be empty')
        if replicas < 0:
            problem = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid_object("autoscaling", "Scale", self.target.name, [problem])
        return replicas

    def _check_uid(self, meta: JsonObject, old_meta: JsonObject) -> None:
        kind, uid = self.target.kind, meta.get("uid") or old_meta["uid"]
        if not kind.unstructured and uid != old_meta["uid"]:
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old_meta['uid']}"
            raise conflict(GroupResource(kind.group, f"{kind.plural}/scale"), self.target.name, text)

    def _set_replicas(self, obj: JsonObject, scale_meta: JsonObject, replicas: int) -> JsonObject:
        """Set the number and the Scale's version in the object, and update the managers from the Scale's."""
        kind, steps, meta = self.target.kind, self._steps, obj["metadata"]
        below = obj
        for step in steps[:-1]:
            below = below.setdefault(step, {})
        below[steps[-1]] = replicas
        api_version = kind.api_version(self.target.version)
        managed = to_parent(meta.get("managedFields"), scale_meta.get("managedFields"), api_version, steps)
        if managed:
            meta["managedFields"] = managed
        else:
            meta.pop("managedFields", None)
        # A custom resource's Scale may omit the version that it is based on.
        unnamed = "" if not kind.unstructured else meta["resourceVersion"]
        meta["resourceVersion"] = scale_meta.get("resourceVersion") or unnamed
        return obj
