"""What a server serves: from what a user types (``po``, ``claims.resource.k8s.io``) to the URL of a resource."""

import asyncio
from dataclasses import dataclass
from typing import Any

from dra_shared.client.errors import from_response
from dra_shared.client.rest import Client

from dra_cli.errors import CommandError


@dataclass(frozen=True)
class ServedResource:
    """One resource as the server's discovery documents list it."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...]

    @property
    def api_version(self) -> str:
        """``group/version``, or ``v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def title(self) -> str:
        """How kubectl names an object's kind: ``resourceclaim.resource.k8s.io``."""
        singular = self.singular or self.kind.lower()
        return f"{singular}.{self.group}" if self.group else singular

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The URL path of the collection, or of one object."""
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        return f"{path}/{name}" if name else path


class Discovery:
    """The resources of one server, in the server's order of preference."""

    def __init__(self, resources: list[ServedResource]) -> None:
        self._resources = resources

    @classmethod
    async def read(cls, client: Client) -> "Discovery":
        """Ask the server what it serves."""
        core, groups = await asyncio.gather(_get(client, "/api/v1"), _get(client, "/apis"))
        versions: list[tuple[str, str]] = []
        for group in groups["groups"]:
            preferred = group["preferredVersion"]["version"]
            names = [entry["version"] for entry in group["versions"]]
            versions += [(group["name"], name) for name in sorted(names, key=lambda v: v != preferred)]
        documents = await asyncio.gather(*(_get(client, f"/apis/{g}/{v}") for g, v in versions))
        resources = _resources("", "v1", core)
        for (group_name, version), document in zip(versions, documents, strict=True):
            resources += _resources(group_name, version, document)
        return cls(resources)

    def named(self, name: str) -> ServedResource:
        """The resource that a user calls ``name``: plural, singular, short name or kind, perhaps with its group.

        Raises:
            CommandError: the server serves none of that name.
        """
        wanted = name.lower()
        for resource in self._resources:
            names = {resource.plural, resource.singular, resource.kind.lower(), *resource.short_names}
            plain, _, group = wanted.partition(".")
            if wanted in names or (
                plain in names and group in (resource.group, f"{resource.version}.{resource.group}")
            ):
                return resource
        raise CommandError(f'the server doesn\'t have a resource type "{name}"')

    def of(self, obj: dict[str, Any]) -> ServedResource:
        """The resource of an object, by its apiVersion and kind.

        Raises:
            CommandError: the server does not serve that kind in that version.
        """
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        for resource in self._resources:
            if resource.api_version == api_version and resource.kind == kind:
                return resource
        from dra_cli.conversion import hint

        raise CommandError(f'no matches for kind "{kind}" in version "{api_version}"{hint(obj)}')


async def _get(client: Client, path: str) -> dict[str, Any]:
    response = await client.raw("GET", path)
    if response.status_code != 200:
        raise from_response(response.status_code, response.content)
    document: dict[str, Any] = response.json()
    return document


def _resources(group: str, version: str, document: dict[str, Any]) -> list[ServedResource]:
    return [
        ServedResource(
            group=group,
            version=version,
            plural=entry["name"],
            singular=entry.get("singularName", ""),
            kind=entry["kind"],
            namespaced=entry["namespaced"],
            short_names=tuple(entry.get("shortNames", ())),
        )
        for entry in document["resources"]
        if "/" not in entry["name"]
    ]
