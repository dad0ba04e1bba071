"""Discovery: map a name that a user types (``po``, ``claims.resource.k8s.io``) to a resource and its URL."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dra_shared.errors import UserError

if TYPE_CHECKING:
    from dra_shared.client.rest import Client

#: The paths of the core group and of all others, and the media type of aggregated discovery (since Kubernetes 1.26).
PATHS = ("/api", "/apis")
ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True)
class ServedResource:
    """A resource in the server's discovery documents."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...]
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """``group/version``, or ``v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def title(self) -> str:
        """The kind as kubectl shows it: ``resourceclaim.resource.k8s.io``."""
        singular = self.singular or self.kind.lower()
        return f"{singular}.{self.group}" if self.group else singular

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return the URL path of the collection, or of one object."""
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
    async def read(cls, client: "Client") -> "Discovery":
        """Read the discovery documents of the server."""
        import asyncio

        answers = await asyncio.gather(*(_get(client, path) for path in PATHS))
        return cls([resource for answer in answers for resource in resources(answer)])

    @property
    def resources(self) -> list[ServedResource]:
        """All resources."""
        return self._resources

    def resolve(self, name: str) -> ServedResource:
        """Return the resource with that plural, singular, short name or kind. A group may follow the name.

        Raises:
            UserError: the server serves no such resource.
        """
        found = self.find(name)
        if found is None:
            raise UserError(f'the server doesn\'t have a resource type "{name}"')
        return found

    def find(self, name: str) -> ServedResource | None:
        """Return the resource as :meth:`resolve` does, or None."""
        wanted = name.lower()
        for resource in self._resources:
            names = {resource.plural, resource.singular, resource.kind.lower(), *resource.short_names}
            plain, _, group = wanted.partition(".")
            if wanted in names or (
                plain in names and group in (resource.group, f"{resource.version}.{resource.group}")
            ):
                return resource
        return None

    def of(self, obj: dict[str, Any]) -> ServedResource:
        """Return the resource of an object, by its apiVersion and kind.

        Raises:
            UserError: the server does not serve that kind in that version.
        """
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        for resource in self._resources:
            if resource.api_version == api_version and resource.kind == kind:
                return resource
        from dra_kube.conversion import hint

        raise UserError(f'no matches for kind "{kind}" in version "{api_version}"{hint(obj)}')


def resources(document: dict[str, Any]) -> list[ServedResource]:
    """Return the resources of an aggregated discovery document, each group's preferred version first."""
    return [
        _resource(group["metadata"].get("name", ""), version["version"], entry)
        for group in document.get("items") or ()
        for version in group.get("versions") or ()
        for entry in version.get("resources") or ()
    ]


async def _get(client: "Client", path: str) -> dict[str, Any]:
    from dra_shared.client.errors import from_response

    response = await client.raw("GET", path, accept=ACCEPT)
    if response.status_code != 200:
        raise from_response(response.status_code, response.content)
    document: dict[str, Any] = response.json()
    return document


def _resource(group: str, version: str, entry: dict[str, Any]) -> ServedResource:
    return ServedResource(
        group=group,
        version=version,
        plural=entry["resource"],
        singular=entry.get("singularResource", ""),
        kind=(entry.get("responseKind") or {}).get("kind", ""),
        namespaced=entry.get("scope") == "Namespaced",
        short_names=tuple(entry.get("shortNames") or ()),
        categories=tuple(entry.get("categories") or ()),
        verbs=tuple(entry.get("verbs") or ()),
    )
