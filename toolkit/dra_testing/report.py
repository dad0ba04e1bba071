"""The report on a cluster when a test fails: events, explanations, and a bundle of everything."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from dra_shared.client.errors import ApiError
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from dra_testing.services import WARNINGS

if TYPE_CHECKING:
    from dra_kube.discovery import ServedResource

    from dra_testing.cluster import AsyncCluster


_EXPLAINED = {"pods": "pod", "resourceclaims": "claim"}
_MOST_EVENTS = 40
# Kinds that the report of a failed test shows; the bundle has all.
_SHOWN = ("pods", "resourceclaims")
_FAILURES = (ApiError, UserError, httpx.HTTPError, OSError)


async def describe(
    cluster: "AsyncCluster", target: str, namespace: str, resource: "ServedResource", last: JsonObject | None
) -> str:
    """Describe an object that did not meet a condition: its state, explanation and events."""
    if last is None:
        return f"{target} does not exist in namespace {namespace}"
    lines = [_state(last)]
    name = last["metadata"]["name"]
    if resource.plural in _EXPLAINED:
        lines.append(await _explanation(cluster, f"{_EXPLAINED[resource.plural]}/{name}", namespace))
    lines += [
        event_line(event)
        for event in await cluster.events(namespace)
        if event.get("involvedObject", {}).get("uid") == last["metadata"]["uid"]
    ]
    return "\n".join(filter(None, lines))


async def sections(cluster: "AsyncCluster", folder: Path) -> list[tuple[str, str]]:
    """Return titles and texts for the report of a failed test, and write the bundle to ``folder``."""
    found = []
    try:
        events = [event_line(event) for event in await cluster.events()]
        found.append(("dralab events", "\n".join(events[-_MOST_EVENTS:])))
        found.append(("dralab explain", "\n".join(await _explanations(cluster))))
        found.append(("dralab bundle", str(await cluster.bundle(folder))))
    except _FAILURES as error:
        found.append(("dralab", f"the cluster does not answer: {error}"))
    return [(title, text) for title, text in found if text]


async def write_bundle(cluster: "AsyncCluster", folder: Path) -> Path:
    """Write objects by kind, events, explanations and logs below ``folder``, and return their archive."""
    import yaml

    root = folder / "dralab-bundle"
    (root / "objects").mkdir(parents=True, exist_ok=True)
    for resource in await cluster.resources():
        if "list" in resource.verbs and resource.plural != "secrets":
            listed = await cluster.list(f"{resource.plural}.{resource.group}".rstrip("."))
            if listed:
                items = [{"apiVersion": resource.api_version, "kind": resource.kind, **one} for one in listed]
                text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}, sort_keys=False)
                (root / "objects" / f"{resource.plural}.{resource.group or 'core'}.yaml").write_text(text)
    events = [event_line(event) for event in await cluster.events()]
    (root / "events.txt").write_text("\n".join(events) + "\n")
    (root / "explain.txt").write_text("\n".join(await _explanations(cluster)) + "\n")
    for log in (*cluster.data.glob("logs/*.log"), *cluster.data.glob("*.log")):
        shutil.copy(log, root / log.name)
    for log in WARNINGS:
        shutil.copy(log, root / "services.log")
    return Path(shutil.make_archive(str(root), "gztar", folder, root.name))


def event_line(event: JsonObject) -> str:
    """Format an event as one line."""
    regarding = event.get("involvedObject", {})
    what = f"{regarding.get('kind', '').lower()}/{regarding.get('name', '')}"
    count = event.get("count") or (event.get("series") or {}).get("count") or 1
    times = f" (x{count})" if count > 1 else ""
    return f"{event.get('type', ''):8} {event.get('reason', ''):22} {what}{times}: {event.get('message', '')}"


async def _explanations(cluster: "AsyncCluster") -> list[str]:
    """Return the explanations of all pending pods."""
    lines = []
    for pod in await cluster.list("pods"):
        if pod["status"].get("phase") == "Pending":
            meta = pod["metadata"]
            lines.append(await _explanation(cluster, f"pod/{meta['name']}", meta["namespace"]))
    return lines


async def _explanation(cluster: "AsyncCluster", target: str, namespace: str) -> str:
    try:
        return await cluster.explain(target, namespace)
    except _FAILURES as error:
        return f"{target}: no explanation: {error}"


def _state(obj: JsonObject) -> str:
    status = obj.get("status") or {}
    conditions = [
        f"{one['type']}={one['status']}{_reason(one)}"
        for one in status.get("conditions") or ()
        if "type" in one
    ]
    containers = [
        f"{one['name']}: {state}{_reason(details or {})}"
        for one in status.get("containerStatuses") or ()
        for state, details in (one.get("state") or {}).items()
    ]
    phase = status.get("phase")
    parts = [f"phase {phase}" if phase else "", ", ".join(conditions), ", ".join(containers)]
    return "; ".join(filter(None, parts))


def _reason(one: JsonObject) -> str:
    text = ": ".join(str(one[key]) for key in ("reason", "message") if one.get(key))
    return f" ({text})" if text else ""
