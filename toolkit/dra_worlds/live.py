"""Read a world from a running cluster. Only lists are sent, in pages."""

from collections.abc import Sequence
from typing import Any

import msgspec
from dra_scheduler.plan.objects import RESOURCES
from dra_shared.api.resources import Resource
from dra_shared.client.errors import from_response
from dra_shared.client.rest import Client
from dra_shared.errors import UserError

from dra_worlds.documents import Document

_PAGE = 500
# No question can be answered without these.
_NEEDED = frozenset({"nodes", "pods"})
_VERSIONS = {
    "resource.k8s.io": ("v1", "v1beta2", "v1beta1", "v1alpha3"),
    "scheduling.k8s.io": ("v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"),
}


class _Page(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: dict[str, Any] = {}


_pages = msgspec.json.Decoder(_Page)


async def list_objects(
    client: Client, problems: list[str], *, revision: str | None = None, more: Sequence[Resource[Any]] = ()
) -> list[tuple[Resource[Any], list[Document]]]:
    """Return the objects of a world by resource, at ``revision`` if one is given. ``more`` resources are listed, too.

    Resources that may not be listed are left out and reported in ``problems``.

    Raises:
        UserError: nodes or pods may not be listed.
    """
    found, refused = [], []
    for resource in (*more, *RESOURCES):
        code, documents = await _list(client, resource, revision)
        if code == 403:
            refused.append(resource)
        else:
            found.append((resource, documents))
    if any(resource.plural in _NEEDED for resource in refused):
        raise UserError(_needs(refused))
    if refused:
        names = ", ".join(resource.group_resource for resource in refused)
        problems.append(f"may not be listed and count as absent: {names}. {_grant(refused)}")
    return found


async def _list(client: Client, resource: Resource[Any], revision: str | None) -> tuple[int, list[Document]]:
    versions = dict.fromkeys((resource.version, *_VERSIONS.get(resource.group, ())))
    for version in versions:
        code, items = await _pages_of(client, resource, version, revision)
        if code != 404:
            api_version = f"{resource.group}/{version}" if resource.group else version
            return code, [Document(api_version, resource.kind, item, True, client.base_url) for item in items]
    return 404, []


async def _pages_of(
    client: Client, resource: Resource[Any], version: str, revision: str | None
) -> tuple[int, list[msgspec.Raw]]:
    path = resource.path().replace(f"/{resource.version}/", f"/{version}/", 1)
    params = {"limit": str(_PAGE)}
    if revision is not None:
        params |= {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
    items: list[msgspec.Raw] = []
    while True:
        response = await client.raw("GET", path, params=params)
        if response.status_code in (403, 404):
            return response.status_code, []
        if response.status_code != 200:
            raise from_response(response.status_code, response.content)
        page = _pages.decode(response.content)
        items += page.items or ()
        following = page.metadata.get("continue")
        if not following:
            return 200, items
        params = {"limit": str(_PAGE), "continue": str(following)}


def _needs(refused: Sequence[Resource[Any]]) -> str:
    names = ", ".join(resource.group_resource for resource in refused)
    return f"these may not be listed: {names}. {_grant(refused)}"


def _grant(refused: Sequence[Resource[Any]]) -> str:
    wanted = ",".join(resource.group_resource for resource in refused)
    return (
        "A ClusterRole gives that: kubectl create clusterrole dralab-plan --verb=get,list "
        f"--resource={wanted}, bound with: kubectl create clusterrolebinding dralab-plan "
        "--clusterrole=dralab-plan --user=NAME"
    )
