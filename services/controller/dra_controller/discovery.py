"""The kinds that the API server serves, for controllers that handle objects of every kind.

Mirrors client-go's discovery/discovery_client.go.
"""

from dataclasses import dataclass
from typing import Any

from dra_shared.api.meta import Object, ObjectMeta
from dra_shared.api.resources import Resource
from dra_shared.client.errors import from_response
from dra_shared.client.rest import Client
from msgspec import field


class SlimMeta(ObjectMeta):
    """Metadata without large fields. Their names differ from the API's, so they are never decoded."""

    labels: dict[str, str] = field(default_factory=dict, name="-labels")
    annotations: dict[str, str] = field(default_factory=dict, name="-annotations")


class AnyObject(Object):
    """An object of any kind: its identity, its owners and its finalizers."""

    metadata: SlimMeta = field(default_factory=SlimMeta)


Kind = Resource[AnyObject]

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


@dataclass(frozen=True)
class Served:
    """A kind in one version."""

    resource: Kind
    verbs: frozenset[str]
    preferred: bool
    """True if the version is the first of its group that serves the kind."""


async def discover(client: Client) -> list[Served]:
    """Return every kind in every version.

    Raises:
        ApiError: the server rejects the request.
    """
    served: list[Served] = []
    for path in ("/api", "/apis"):
        document = await _get(client, path, _AGGREGATED)
        if document.get("kind") == "APIGroupDiscoveryList":
            served.extend(_parse_aggregated(document))
        elif path == "/api":
            served.extend(await _legacy(client, "", [f"{path}/{v}" for v in document.get("versions", [])]))
        else:
            for group in document.get("groups", []):
                first = group.get("preferredVersion", {}).get("groupVersion")
                versions = [entry["groupVersion"] for entry in group["versions"]]
                versions.sort(key=lambda version: version != first)
                served.extend(await _legacy(client, group["name"], [f"{path}/{v}" for v in versions]))
    return served


async def _get(client: Client, path: str, accept: str | None = None) -> dict[str, Any]:
    response = await client.raw("GET", path, accept=accept)
    if response.status_code != 200:
        raise from_response(response.status_code, response.content)
    document: dict[str, Any] = response.json()
    return document


def _parse_aggregated(document: dict[str, Any]) -> list[Served]:
    served = []
    for group in document["items"]:
        name = group["metadata"].get("name", "")
        seen: set[str] = set()
        for version in group.get("versions", []):
            for entry in version.get("resources", []):
                plural = entry["resource"]
                kind = entry.get("responseKind", {}).get("kind", "")
                resource = _kind(name, version["version"], plural, kind, entry.get("scope") == "Namespaced")
                served.append(Served(resource, frozenset(entry.get("verbs", [])), plural not in seen))
                seen.add(plural)
    return served


async def _legacy(client: Client, group: str, paths: list[str]) -> list[Served]:
    served = []
    seen: set[str] = set()
    for path in paths:
        document = await _get(client, path)
        version = path.rpartition("/")[2]
        for entry in document.get("resources", []):
            plural = entry["name"]
            if "/" in plural:
                continue
            resource = _kind(group, version, plural, entry["kind"], bool(entry["namespaced"]))
            served.append(Served(resource, frozenset(entry["verbs"]), plural not in seen))
            seen.add(plural)
    return served


def _kind(group: str, version: str, plural: str, kind: str, namespaced: bool) -> Kind:
    return Resource(group, version, plural, kind, AnyObject, namespaced)
