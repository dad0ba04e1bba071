"""The history of objects and devices: read it from the API server's ``/history``, and format it as text."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from dra_kube.discovery import ServedResource
from dra_kube.reader import Reader
from dra_kube.selection import Selected, discover, select

_WORDS = {
    "claim": "resourceclaims",
    "claims": "resourceclaims",
    "slice": "resourceslices",
    "slices": "resourceslices",
    "class": "deviceclasses",
}
_CORE, _RESOURCE = "/api/v1", "/apis/resource.k8s.io/v1"
# Kinds that are left out unless the user asks for them: they change all the time.
_LEFT_OUT = frozenset({"events", "leases"})
_PAGE = 1000
_WIDTH = 100
_DONE = {"ADDED": "created", "MODIFIED": "changed", "DELETED": "deleted"}


@dataclass(frozen=True)
class Wanted:
    """The changes that a user asks for. ``begin`` and ``end`` are moments; empty for the whole history."""

    words: list[str]
    namespace: str | None
    begin: str
    end: str
    limit: int
    net: bool


def changes(reader: Reader, wanted: Wanted) -> list[JsonObject]:
    """Return the changes, oldest first, as in ``/history``. The field ``what`` of a change names its object.

    Raises:
        UserError: there is no such kind or device, or the API server keeps no history.
        ApiError: the API server rejects the request.
    """
    if wanted.words and wanted.words[0].partition("/")[0] in ("device", "devices"):
        return _device_history(reader, wanted)
    found = [change for one in _select_kinds(reader, wanted) for change in _read_changes(reader, wanted, one)]
    if not wanted.net:
        found.sort(key=lambda change: int(change["revision"]))
    return found[-wanted.limit :]


def _select_kinds(reader: Reader, wanted: Wanted) -> list[Selected]:
    if not wanted.words:
        return [Selected(one) for one in stored_resources(reader) if one.plural not in _LEFT_OUT]
    words = []
    for word in wanted.words:
        kind, slash, name = word.partition("/")
        words.append(_WORDS.get(kind, kind) + slash + name)
    return select(discover(reader, words), words)


def stored_resources(reader: Reader) -> Iterator[ServedResource]:
    """Yield the resources whose objects the server stores, each in the server's preferred version."""
    seen = set()
    for resource in discover(reader, ("all",)).resources:
        place = (resource.group, resource.plural)
        if place not in seen and "watch" in resource.verbs:
            seen.add(place)
            yield resource


def _read_changes(reader: Reader, wanted: Wanted, one: Selected) -> Iterator[JsonObject]:
    resource = one.resource
    every = not wanted.words or wanted.namespace is None
    namespace = wanted.namespace if resource.namespaced and not every else None
    if one.names and resource.namespaced and namespace is None:
        raise UserError("a resource cannot be retrieved by name across all namespaces", 2)
    for name in one.names or (None,):
        params = {"from": wanted.begin, "to": wanted.end, "limit": str(wanted.limit)}
        if wanted.net:
            params["net"] = "true"
        for change in _read_history(reader, resource.path(namespace, name), params)["items"]:
            yield {"what": f"{resource.singular or resource.plural}/{change['name']}", **change}


def _read_history(reader: Reader, path: str, params: dict[str, str]) -> JsonObject:
    from dra_shared.client.errors import ApiError

    try:
        found = reader.json(f"/history{path}", params)
    except ApiError as error:
        if error.code == 404 and error.reason != "NotFound":
            raise UserError(f"{reader.server} keeps no history") from error
        raise
    if found.get("kind") != "ChangeList":
        raise UserError(f"{reader.server} keeps no history")
    return found


def _device_history(reader: Reader, wanted: Wanted) -> list[JsonObject]:
    """Return the history of a device: changes of its fields, and the claims that it was allocated to."""
    if wanted.net:
        raise UserError(
            "--net cannot compare a device, which is not an object: leave out --net, or name its slice or claim",
            2,
        )
    parts = "/".join(wanted.words).split("/")
    if len(parts) != 3:
        raise UserError("say which device: device/POOL/NAME, as `dralab devices` names them", 2)
    pool, name = parts[1:]
    slices = _pages(reader, wanted, f"{_RESOURCE}/resourceslices")
    claims = _pages(reader, wanted, f"{_RESOURCE}/resourceclaims")
    found = [*_publications(slices, pool, name), *_allocations(claims, pool, name)]
    found.sort(key=lambda change: int(change["revision"]))
    return found[-wanted.limit :]


def _pages(reader: Reader, wanted: Wanted, path: str) -> Iterator[JsonObject]:
    """Yield all changes of a kind with their objects, oldest first."""
    begin = wanted.begin
    while True:
        params = {"from": begin, "to": wanted.end, "limit": str(_PAGE), "order": "oldest"}
        page = _read_history(reader, path, {**params, "objects": "true", "changes": "false"})
        yield from page["items"]
        if not page["more"]:
            return
        begin = page["items"][-1]["revision"]


def _publications(slices: Iterable[JsonObject], pool: str, name: str) -> Iterator[JsonObject]:
    """Yield the changes of the device in the slices that publish it."""
    before: dict[str, JsonObject | None] = {}
    for change in slices:
        spec = change.pop("object")["spec"]
        if spec["pool"]["name"] != pool:
            continue
        known = before.get(change["name"])
        first = change["name"] not in before
        devices = () if change["type"] == "DELETED" else spec.get("devices") or ()
        device = next((one for one in devices if one["name"] == name), None)
        before[change["name"]] = device
        if device == known or (first and change["type"] == "MODIFIED"):
            continue
        kind = "ADDED" if known is None else "DELETED" if device is None else "MODIFIED"
        fields = _differences("", known, device) if known and device else []
        about = f"device/{pool}/{name}"
        yield {
            **change,
            "what": about,
            "type": kind,
            "in": f"resourceslice/{change['name']}",
            "changes": fields,
        }


def _differences(path: str, old: Any, new: Any) -> list[JsonObject]:
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted(old.keys() | new.keys())
        return [one for key in keys for one in _differences(f"{path}.{key}", old.get(key), new.get(key))]
    if old == new:
        return []
    values = {"old": old, "new": new}
    return [{"path": path, **{key: value for key, value in values.items() if value is not None}}]


def _allocations(claims: Iterable[JsonObject], pool: str, name: str) -> Iterator[JsonObject]:
    """Yield the allocations of the device to claims, and its releases."""
    held: dict[tuple[str, str], bool] = {}
    for change in claims:
        claim = change.pop("object")
        place = (change.get("namespace", ""), change["name"])
        has = change["type"] != "DELETED" and _has(claim, pool, name)
        if has == held.get(place, False):
            continue
        held[place] = has
        done = {"allocated" if has else "released": "/".join(place)}
        yield {**change, "what": f"device/{pool}/{name}", **done, "changes": []}


def _has(claim: JsonObject, pool: str, name: str) -> bool:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return any((result["pool"], result["device"]) == (pool, name) for result in results)


def lines(found: Iterable[JsonObject]) -> Iterator[str]:
    """Format the changes: a line for each, and one for each field."""
    for change in found:
        yield _line(change)
        for field in change.get("changes") or ():
            yield f"    {_field(field)}"
        if change["type"] == "MODIFIED" and "changes" not in change:
            yield "    (the previous version is not in the history)"


def _line(change: JsonObject) -> str:
    namespace = f" -n {change['namespace']}" if change.get("namespace") else ""
    done = _DONE[change["type"]]
    for key, text in (("allocated", "allocated to claim"), ("released", "released by claim")):
        if key in change:
            done, namespace = f"{text} {change[key]}", ""
    words = [change["time"]] if change.get("time") else []
    words += [f"revision {change['revision']}", f"{change['what']}{namespace}", done]
    return "  ".join(words) + _author(change)


def _author(change: JsonObject) -> str:
    """Return the author of the change: manager, user, and the verb of the request."""
    user = change.get("user")
    if user is None:
        return ""
    manager = change.get("manager")
    verb = "/".join(filter(None, (change.get("verb"), change.get("subresource"))))
    who = f"{manager} ({user})" if manager else user
    return f" by {who}: {verb}" if verb else f" by {who}"


def _field(field: JsonObject) -> str:
    old, new = (_text(field[key]) if key in field else None for key in ("old", "new"))
    if old is None:
        return f"{field['path']}: {new}"
    return f"{field['path']}: {old} → {new if new is not None else '(removed)'}"


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
