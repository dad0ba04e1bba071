"""Facts about a pod that the API server knows and the scheduler does not: its events, and missing templates."""

from typing import Any
from urllib.parse import quote

import orjson
from dra_shared.api.resources import EVENTS, PODS, RESOURCE_CLAIM_TEMPLATES
from dra_shared.client.rest import Client

# The reason of the scheduler's event, which is left out: the explanation has more details.
_KNOWN = "FailedScheduling"
_MOST_EVENTS = 4


async def surroundings(client: Client, namespace: str, pod: str) -> dict[str, Any]:
    """Return ``missing``, the objects that the pod needs and that do not exist, and ``events``, its newest
    warnings, one for each reason.

    Kinds that the caller may not read are left out.
    """
    missing = await _missing_templates(client, namespace, pod)
    events = await _warnings(client, namespace, pod)
    return {name: found for name, found in (("missing", missing), ("events", events)) if found}


def lines(found: dict[str, Any]) -> list[str]:
    """Format the surroundings for people."""
    shown = [f"  {name} does not exist" for name in found.get("missing", ())]
    for event in found.get("events", ()):
        times = f" ({event['count']} times)" if event["count"] > 1 else ""
        shown.append(f"  event {event['reason']}: {event['message']}{times}")
    return shown


async def _missing_templates(client: Client, namespace: str, pod: str) -> list[str]:
    found = await _get(client, PODS.path(namespace, quote(pod, safe="")))
    if found is None:
        return []
    made = {status["name"] for status in found.get("status", {}).get("resourceClaimStatuses", ())}
    missing = []
    for entry in found.get("spec", {}).get("resourceClaims", ()):
        name = entry.get("resourceClaimTemplateName")
        if not name or entry["name"] in made:
            continue
        response = await client.raw("GET", RESOURCE_CLAIM_TEMPLATES.path(namespace, name))
        if response.status_code == 404:
            missing.append(f"ResourceClaimTemplate {namespace}/{name}")
    return missing


async def _warnings(client: Client, namespace: str, pod: str) -> list[dict[str, Any]]:
    selector = f"involvedObject.kind=Pod,involvedObject.name={pod},type=Warning"
    found = await _get(client, EVENTS.path(namespace), {"fieldSelector": selector})
    newest: dict[str, dict[str, Any]] = {}
    for event in sorted((found or {}).get("items", ()), key=_last_seen):
        if event.get("reason") != _KNOWN:
            newest.pop(event["reason"], None)
            count = event.get("count") or (event.get("series") or {}).get("count") or 1
            newest[event["reason"]] = {
                "reason": event["reason"],
                "message": event.get("message", ""),
                "count": count,
            }
    return [*newest.values()][-_MOST_EVENTS:][::-1]


def _last_seen(event: dict[str, Any]) -> str:
    series = event.get("series") or {}
    seen: str = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or ""
    return seen


async def _get(client: Client, path: str, params: dict[str, str] | None = None) -> dict[str, Any] | None:
    response = await client.raw("GET", path, params=params)
    if response.status_code != 200:
        return None
    found: dict[str, Any] = orjson.loads(response.content)
    return found
