"""``apply``, ``create``, ``delete`` and ``logs``: everyday work with a cluster's objects."""

import asyncio
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from dra_shared.client.errors import ApiError, from_response
from dra_shared.client.rest import Client, PatchType
from dra_shared.errors import UserError
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject

from dra_kube.discovery import Discovery, ServedResource
from dra_kube.manifests import Manifest
from dra_kube.warnings import drop_hidden_variables, read_warnings

FIELD_MANAGER = "dralab"
_POLL = 0.05
# kubectl's --pod-running-timeout.
_START_TIMEOUT = 20.0
# The scheduler may try a pod before its informer has seen the pod's claim.
_UNSCHEDULABLE_SECONDS = 2.0
# An error about an unknown field. The server puts the whole object, or its name and kind, before the field.
_UNKNOWN_FIELD = re.compile(
    r"(?:strict decoding error: |failed to create typed patch object \(.*?\): )(.*)", re.DOTALL
)


# The path of a field at the start of an error: .spec.devices.requests[0].deviceClassName, spec.containers[0].image
_FIELD = re.compile(
    r"(?:^|[\s\"])\.?((?:spec|metadata|data|status)?(?:\.[A-Za-z]\w*(?:\[[^]]*\])?)+)(?=:|\")"
)


@dataclass(frozen=True)
class Target:
    """An object on the server."""

    resource: ServedResource
    namespace: str | None
    name: str

    @property
    def path(self) -> str:
        """The object's URL path."""
        return self.resource.path(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.resource.title}/{self.name}"


def target(discovery: Discovery, obj: dict[str, Any], namespace: str | None) -> Target:
    """Return the target of ``obj``. Its namespace is its own, else ``namespace``, else ``default``.

    Raises:
        UserError: the server does not serve its kind, or it has no name.
    """
    resource = discovery.of(obj)
    meta = obj.get("metadata") or {}
    name = meta.get("name")
    if not name:
        place = f"{obj.where}: " if isinstance(obj, Manifest) and obj.where else ""
        generated = (
            "; `dralab create -f` creates objects with generateName" if meta.get("generateName") else ""
        )
        raise UserError(f"{place}{obj.get('kind')} without metadata.name{generated}")
    return Target(resource, _namespace(resource, obj, namespace), name)


def _namespace(resource: ServedResource, obj: dict[str, Any], namespace: str | None) -> str | None:
    """Return the namespace that ``obj`` belongs to, None for a kind without namespaces.

    Raises:
        UserError: the object names another namespace than the option does.
    """
    meta = obj.get("metadata") or {}
    own = meta.get("namespace")
    if own and namespace and own != namespace:
        raise UserError(
            f"{obj['kind']} {meta.get('name') or meta.get('generateName')} has the namespace {own!r}, "
            f"not {namespace!r}: leave out --namespace"
        )
    return (own or namespace or "default") if resource.namespaced else None


async def apply(
    client: Client,
    discovery: Discovery,
    objects: Sequence[dict[str, Any]],
    namespace: str | None,
    report: Callable[[Target, str, JsonObject], None] = lambda where, outcome, stored: None,
    warn: Callable[[str], None] = lambda text: None,
) -> list[tuple[Target, str]]:
    """Apply every object on the server, and return the outcome of each.

    As with kubectl, the others are applied if the server rejects one (kubectl/pkg/cmd/apply/apply.go). ``report`` is
    called with each outcome and the stored object as soon as they are known, and ``warn`` with each warning.

    Raises:
        UserError, ApiError: the server rejects some of them, or does not serve their kinds.
    """
    results = []
    refusals: list[Exception] = []
    for obj in objects:
        try:
            where, outcome, stored = await _apply_one(client, discovery, obj, namespace, warn)
        except (ApiError, UserError) as refusal:
            refusals.append(refusal)
            continue
        results.append((where, outcome))
        report(where, outcome, stored)
    _raise_all(refusals)
    return results


async def _apply_one(
    client: Client,
    discovery: Discovery,
    obj: dict[str, Any],
    namespace: str | None,
    warn: Callable[[str], None],
) -> tuple[Target, str, JsonObject]:
    where = target(discovery, obj, namespace)
    obj, hidden = drop_hidden_variables(obj)
    before = await client.raw("GET", where.path)
    response = await client.raw(
        "PATCH",
        where.path,
        params={"fieldManager": FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"},
        content=dumps(obj),
        content_type=PatchType.APPLY.value,
    )
    for text in [*hidden, *read_warnings(response)]:
        warn(text)
    if response.status_code >= 400:
        raise _locate_error(where, from_response(response.status_code, response.content), obj)
    stored: JsonObject = response.json()
    if response.status_code == 201:
        return where, "created", stored
    if before.status_code == 200 and _version(before.json()) == _version(stored):
        return where, "unchanged", stored
    return where, "configured", stored


def _raise_all(refusals: Sequence[Exception]) -> None:
    """Raise the only error, or one error with the messages of all."""
    if len(refusals) == 1:
        raise refusals[0]
    if refusals:
        raise UserError("\n".join(map(str, refusals)))


async def create(
    client: Client,
    discovery: Discovery,
    objects: Sequence[dict[str, Any]],
    namespace: str | None,
    report: Callable[[Target, JsonObject], None] = lambda where, stored: None,
    warn: Callable[[str], None] = lambda text: None,
) -> None:
    """Create every object. The server completes names that begin with ``metadata.generateName``.

    As with kubectl, the others are created if the server rejects one (kubectl/pkg/cmd/create/create.go). ``report`` is
    called with each stored object.

    Raises:
        UserError, ApiError: the server rejects some of them.
    """
    refusals: list[Exception] = []
    for obj in objects:
        resource = discovery.of(obj)
        meta = obj.get("metadata") or {}
        within = _namespace(resource, obj, namespace)
        response = await client.raw(
            "POST",
            resource.path(within),
            params={"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"},
            content=dumps(obj),
        )
        for text in read_warnings(response):
            warn(text)
        if response.status_code >= 400:
            where = Target(resource, within, meta.get("name") or f"{meta.get('generateName', '')}…")
            refusals.append(_locate_error(where, from_response(response.status_code, response.content), obj))
        else:
            stored = response.json()
            report(Target(resource, within, stored["metadata"]["name"]), stored)
    _raise_all(refusals)


def _locate_error(where: Target, refusal: ApiError, obj: dict[str, Any]) -> Exception:
    """Return the error for the user, with the manifest's file and line if they are known."""
    from dra_kube.conversion import hint

    point = _UNKNOWN_FIELD.search(str(refusal))
    field = _FIELD.search(point[1] if point else str(refusal))
    place = f"{obj.place(field[1] if field else '')}: " if isinstance(obj, Manifest) and obj.where else ""
    if point:
        return UserError(f"{place}{where} is refused: {point[1]}{hint(obj)}")
    if not place:
        return refusal
    return UserError(f"{place}Error from server ({refusal.reason or refusal.code}): {refusal}")


def _version(obj: dict[str, Any]) -> Any:
    return obj["metadata"]["resourceVersion"]


async def delete(
    client: Client,
    targets: list[Target],
    *,
    wait: bool = True,
    timeout: float = 60.0,
    missing_ok: bool = False,
    grace_period: int | None = None,
    report: Callable[[Target], None] = lambda where: None,
    gone: Callable[[Target], None] = lambda where: None,
) -> None:
    """Delete objects, and wait until they are gone.

    ``report`` is called with each object whose deletion the server accepts, and ``gone`` with each that is gone.

    Raises:
        ApiError: the server rejects a deletion, or an object does not exist. The others are deleted nevertheless.
        UserError: some objects still exist after ``timeout`` seconds.
    """
    options: dict[str, Any] = {"propagationPolicy": "Background"}
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    deleted: list[tuple[Target, str | None]] = []
    refusals: list[ApiError] = []
    for where in targets:
        response = await client.raw("DELETE", where.path, content=orjson.dumps(options))
        if response.status_code == 404 and missing_ok:
            continue
        if response.status_code >= 400:
            refusals.append(from_response(response.status_code, response.content))
            continue
        report(where)
        body = response.json()
        uid = (body.get("metadata") or {}).get("uid") or (body.get("details") or {}).get("uid")
        deleted.append((where, uid))
    deadline = time.monotonic() + timeout
    for where, uid in deleted if wait else ():
        while await _exists(client, where, uid):
            if time.monotonic() > deadline:
                raise UserError(f"{where} is still there after {timeout:.0f} s")
            await asyncio.sleep(_POLL)
        gone(where)
    if refusals:
        raise refusals[0]


async def _exists(client: Client, where: Target, uid: str | None) -> bool:
    response = await client.raw("GET", where.path)
    return response.status_code == 200 and uid in (None, response.json()["metadata"]["uid"])


async def logs(
    client: Client, namespace: str, pod: str, container: str | None, params: dict[str, str]
) -> None:
    """Copy a container's log to standard output. With ``follow``, go on until the container ends.

    If the pod was just created, wait for its start first.

    Raises:
        UserError: the scheduler finds no node for the pod, so there is no log.
    """
    if container:
        params = {**params, "container": container}
    await _await_start(client, namespace, pod, container)
    response = await client.stream("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log", params=params)
    try:
        if response.status_code >= 400:
            raise from_response(response.status_code, await response.aread())
        async for chunk in response.aiter_bytes():
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    finally:
        await response.aclose()


async def _await_start(client: Client, namespace: str, name: str, container: str | None) -> None:
    """Wait until the container, or any container if none is named, has run. Give up after some time."""
    deadline, unschedulable_since = time.monotonic() + _START_TIMEOUT, 0.0
    while (now := time.monotonic()) < deadline:
        response = await client.raw("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        if response.status_code != 200:
            return
        status = response.json().get("status") or {}
        if is_unschedulable(status):
            unschedulable_since = unschedulable_since or now
            if now - unschedulable_since >= _UNSCHEDULABLE_SECONDS:
                raise UserError(
                    f"pod {namespace}/{name} has no node; `dralab explain pod/{name} -n {namespace}` says why"
                )
        elif not _is_starting(status, container):
            return
        else:
            unschedulable_since = 0.0
        await asyncio.sleep(_POLL)


def is_unschedulable(status: dict[str, Any]) -> bool:
    """True if the scheduler has found no node for a pod with this status."""
    return any(
        condition["type"] == "PodScheduled" and condition["status"] == "False"
        for condition in status.get("conditions") or ()
    )


def _is_starting(status: dict[str, Any], container: str | None) -> bool:
    containers = [
        one
        for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        for one in status.get(kind) or ()
        if container is None or one["name"] == container
    ]
    ran = any("waiting" not in (one.get("state") or {"waiting": {}}) for one in containers)
    return status.get("phase") == "Pending" and not ran
