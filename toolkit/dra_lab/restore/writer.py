"""Create a world's objects in a new cluster, with new uids and their status, before any controller acts on them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dra_shared.api.resources import (
    NAMESPACES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    WORKLOADS,
    Resource,
)
from dra_shared.client.rest import Client, PatchType
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject
from dra_shared.podgroups import pod_groups
from dra_shared.version import DEFAULT, Version

from dra_lab.restore.objects import priority_classes


class Writer:
    """Writes objects.

    ``problems`` collects the errors of objects that the new cluster, of version ``kubernetes``, rejects.
    """

    def __init__(self, client: Client, problems: list[str], kubernetes: Version = DEFAULT) -> None:
        self._client = client
        # Every Kubernetes version serves the other kinds in the same version.
        self._groups = pod_groups(kubernetes).version
        self._problems = problems
        self._uids: dict[str, str] = {}

    async def write(
        self, objects: Sequence[tuple[Resource[Any], JsonObject]], step: Callable[[], None] = lambda: None
    ) -> int:
        """Create the objects in this order, and return how many exist then.

        Objects that exist already with these names are not changed.
        """
        await self._prepare(objects)
        written = 0
        for resource, obj in objects:
            written += await self._create(*self._to_served(resource, obj))
            step()
        return written

    def _to_served(self, resource: Resource[Any], obj: JsonObject) -> tuple[Resource[Any], JsonObject]:
        """Return the resource and the object in the version that the new cluster serves."""
        if resource not in (POD_GROUPS, WORKLOADS):
            return resource, obj
        served = replace(resource, version=self._groups)
        return served, {**obj, "apiVersion": served.api_version}

    async def _prepare(self, objects: Sequence[tuple[Resource[Any], JsonObject]]) -> None:
        """Create objects that the others need and dumps often lack: namespaces, service accounts, priority classes."""
        spaces = {obj["metadata"].get("namespace") for resource, obj in objects if resource.namespaced}
        for name in sorted(filter(None, spaces)):
            await self._ensure(NAMESPACES, {"metadata": {"name": name}})
        accounts = {
            (
                obj["metadata"].get("namespace", ""),
                (obj.get("spec") or {}).get("serviceAccountName") or "default",
            )
            for resource, obj in objects
            if resource is PODS
        }
        for space, name in sorted(accounts):
            await self._ensure(SERVICE_ACCOUNTS, {"metadata": {"name": name, "namespace": space}})
        for value in priority_classes(objects):
            await self._ensure(PRIORITY_CLASSES, value)

    async def _ensure(self, resource: Resource[Any], obj: JsonObject) -> None:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        path = resource.path(obj["metadata"].get("namespace"))
        response = await self._client.raw("POST", path, content=dumps(body))
        if response.status_code not in (201, 409):
            self._problems.append(f"{resource.kind} {obj['metadata']['name']}: {_message(response)}")

    async def _create(self, resource: Resource[Any], obj: JsonObject) -> bool:
        meta = obj["metadata"]
        name, space, old = meta["name"], meta.get("namespace"), meta.get("uid", "")
        status = obj.get("status")
        body = {**obj, "metadata": self._metadata(resource, meta)}
        body.pop("status", None)
        response = await self._client.raw("POST", resource.path(space), content=dumps(body))
        path = f"{resource.path(space)}/{name}"
        if response.status_code == 409:
            response = await self._client.raw("GET", path)
        elif response.status_code == 201 and status:
            await self._status(resource, path, status, name)
        if response.status_code not in (200, 201):
            self._problems.append(f"{resource.kind} {meta['name']}: {_message(response)}")
            return False
        if old:
            self._uids[old] = response.json()["metadata"]["uid"]
        return True

    def _metadata(self, resource: Resource[Any], meta: JsonObject) -> JsonObject:
        """Return the metadata with the new uids of owners. Missing owners are dropped: they would delete the object."""
        owners = [
            {**owner, "uid": self._uids[owner["uid"]]}
            for owner in meta.get("ownerReferences") or ()
            if owner.get("uid") in self._uids and not (resource is PODS and owner.get("kind") == "Node")
        ]
        made = {key: value for key, value in meta.items() if key not in ("uid", "ownerReferences")}
        return made | ({"ownerReferences": owners} if owners else {})

    async def _status(self, resource: Resource[Any], path: str, status: Any, name: str) -> None:
        body = {"status": self._map_uids(status)}
        response = await self._client.raw(
            "PATCH", f"{path}/status", content=dumps(body), content_type=PatchType.MERGE
        )
        if response.status_code not in (200, 404):
            self._problems.append(f"status of {resource.kind} {name}: {_message(response)}")

    def _map_uids(self, value: Any, key: str = "") -> Any:
        """Replace old uids by new ones."""
        if isinstance(value, dict):
            return {name: self._map_uids(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [self._map_uids(part, key) for part in value]
        return self._uids.get(value, value) if key == "uid" else value


def _message(response: Any) -> str:
    try:
        return str(response.json().get("message") or response.status_code)
    except ValueError:
        return f"{response.status_code} {response.text[:200]}"
