"""The scale subresource: a Scale in place of the object, with the numbers from where the kind has them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from dra_shared.selectors import SelectorError, label_selector

from dra_apiserver.api import Api
from dra_apiserver.equality import copied
from dra_apiserver.errors import (
    GroupResource,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    not_found,
)
from dra_apiserver.handlers.bodies import read_body, reply
from dra_apiserver.handlers.changes import check_version, prepare_update
from dra_apiserver.handlers.mechanisms import mechanism
from dra_apiserver.handlers.options import write_options
from dra_apiserver.handlers.write import check_name, check_patch_type
from dra_apiserver.http import Request
from dra_apiserver.kinds.kind import Kind, ScalePaths
from dra_apiserver.patch import APPLY_PATCH, track_update
from dra_apiserver.patch.scale import to_parent, to_scale
from dra_apiserver.present import canonical
from dra_apiserver.storage import Put, Record, Remove
from dra_apiserver.target import Target

JsonObject = dict[str, Any]

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
        return str(label_selector({"matchLabels": chosen} if kind.selects_by_labels else chosen))
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
    """How many replicas the object wants and has."""
    record = api.store.get(target.resource, target.key)
    if record is None:
        raise not_found(target.qualified, target.name)
    await reply(request, 200, _scale_of(target.kind, record.object()))


def _seen(kind: Kind, current: Record, steps: list[str]) -> JsonObject:
    """The Scale as patches see it, with those who manage its replicas."""
    obj = current.object()
    scale = _scale_of(kind, obj)
    if kind.unstructured and _at(obj, ".".join(steps)) is None:
        scale["spec"]["replicas"] = _UNSET
    managed = to_scale(obj["metadata"].get("managedFields"), steps)
    if managed:
        scale["metadata"]["managedFields"] = managed
    return scale


async def put_scale(api: Api, request: Request, target: Target) -> None:
    """Set how many replicas the object wants, by an update or a patch of its Scale."""
    patching = request.method == "PATCH"
    media_type = request.header(b"content-type").partition(";")[0].strip()
    if patching:
        check_patch_type(target.kind, media_type)
    applying = patching and media_type == APPLY_PATCH
    options = write_options(request, "PatchOptions" if patching else "UpdateOptions", apply=applying)
    scaled = Target(_SCALE, "v1", target.namespace, target.name, "scale")
    body = await request.body() if patching else b""
    sent: JsonObject = {}
    if not patching:
        sent = await read_body(api, request, "autoscaling", "v1", "Scale", options)
        check_name(scaled, sent["metadata"])
    kind = target.kind
    main = target._replace(subresource="")
    ctx = replace(api.context(main, request.user, options.dry_run), subresource="scale")
    path = (kind.scale or _BUILT_IN).spec_replicas
    steps = _steps(path)

    def change(current: Record | None) -> Put | Remove | None:
        if current is None:
            raise not_found(target.qualified, target.name)
        old = current.object()
        before = _seen(kind, current, steps)
        if not patching:
            scale = copied(sent)
            scale["metadata"].pop("managedFields", None)
        else:
            how = mechanism(api.registry, scaled, body, media_type, options)
            patched = how.patch(partial(_seen, kind, current, steps), ctx.now)
            request.warn(patched.warnings)
            scale = patched.obj
            scale["metadata"] = scale.get("metadata") or {}
            check_name(scaled, scale["metadata"])
        if not applying:
            if "managedFields" in before["metadata"]:
                scale["metadata"].setdefault("managedFields", before["metadata"]["managedFields"])
            track_update(
                _SCALE, "v1", before, scale, manager=options.manager, subresource="scale", now=ctx.now
            )
        if api.dynamic is not None:
            shown = {**before["metadata"], **scale["metadata"]}
            asked = copied({**before, "metadata": shown, "spec": scale.get("spec") or {}})
            api.dynamic.judge(request, target, asked, before, ctx, "UPDATE")
            scale["spec"] = asked["spec"]
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        meta = scale["metadata"]
        if kind.unstructured and replicas == _UNSET:
            raise bad_request(f'the spec replicas field ".{".".join(steps)}" cannot be empty')
        if replicas < 0:
            problem = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid_object("autoscaling", "Scale", target.name, [problem])
        uid = meta.get("uid") or old["metadata"]["uid"]
        if not kind.unstructured and uid != old["metadata"]["uid"]:
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            raise conflict(GroupResource(kind.group, f"{kind.plural}/scale"), target.name, text)
        obj = current.object()
        below = obj
        for step in steps[:-1]:
            below = below.setdefault(step, {})
        below[steps[-1]] = replicas
        # A custom resource's Scale need not say from which version it comes.
        unsaid = "" if not kind.unstructured else old["metadata"]["resourceVersion"]
        obj["metadata"]["resourceVersion"] = meta.get("resourceVersion") or unsaid
        check_version(main, obj["metadata"], old["metadata"])
        managed = to_parent(
            old["metadata"].get("managedFields"),
            meta.get("managedFields"),
            kind.api_version(target.version),
            steps,
        )
        if managed:
            obj["metadata"]["managedFields"] = managed
        else:
            obj["metadata"].pop("managedFields", None)
        # Policies and webhooks were asked about the Scale.
        outcome = prepare_update(request, main, obj, old, ctx, None)
        return Put(canonical(outcome.obj)) if isinstance(outcome, Put) else outcome

    record = await api.write(target, change, options.dry_run, long=api.takes_long(target))
    assert record is not None
    await reply(request, 200, _scale_of(kind, record.object()))
