"""The world of a running scheduler: the objects that it watches, and lists of kinds that only plans need."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from dra_shared.api.meta import Object
from dra_shared.api.resources import Resource
from dra_shared.client.errors import ApiError
from dra_shared.client.informer import InformerFactory
from dra_shared.client.rest import Client

from dra_scheduler.plan.objects import RESOURCES, Objects

_PAGE = 500


async def cluster_world(informers: InformerFactory, client: Client) -> tuple[Objects, list[str]]:
    """Return the objects of the cluster and the problems of reading them. The objects are a snapshot.

    A scheduler does not watch claim templates and Deployments. Without templates, recreated pods would get
    no claims.

    Raises:
        ApiError: a list fails. httpx.HTTPError: the API server does not answer.
    """
    found: dict[Resource[Any], Iterable[Object]] = {}
    refused = []
    for resource in RESOURCES:
        if informers.find(resource) is None:
            try:
                found[resource] = await _list_all(client, resource)
            except ApiError as error:
                if error.code == 403:
                    refused.append(resource.group_resource)
                elif error.code != 404:
                    raise
    # Read all stores without an await: a pod that is bound in between would not match its claims.
    for resource in RESOURCES:
        if (informer := informers.find(resource)) is not None:
            found[resource] = list(informer.store.list())
    objects = await asyncio.to_thread(_objects, found)
    if not refused:
        return objects, []
    names = ", ".join(refused)
    text = f"may not be listed and count as absent: {names}; give the scheduler's user get and list of them"
    return objects, [text]


def _objects(found: Mapping[Resource[Any], Iterable[Object]]) -> Objects:
    """Return the objects in the order of a list, which decides between equally good nodes and devices."""
    by_key = {resource: {obj.key: obj for obj in each} for resource, each in found.items()}
    return Objects({resource: dict(sorted(each.items())) for resource, each in by_key.items()})


async def _list_all(client: Client, resource: Resource[Any]) -> list[Object]:
    page = await client.list(resource, limit=_PAGE)
    items = list(page.items)
    while page.metadata.continue_:
        page = await client.list(resource, limit=_PAGE, continue_=page.metadata.continue_)
        items += page.items
    return items
