"""The world of a running scheduler: what it watches, and lists of the kinds that only plans need."""

from collections.abc import Mapping
from typing import Any

from dra_shared.api.meta import Object
from dra_shared.api.resources import Resource
from dra_shared.client.errors import ApiError
from dra_shared.client.informer import InformerFactory
from dra_shared.client.rest import Client

from dra_scheduler.plan.objects import RESOURCES, Objects

_PAGE = 500


async def cluster_world(informers: InformerFactory, client: Client) -> tuple[Objects, list[str]]:
    """Return the objects of the cluster, and the problems of reading them. Later changes do not reach the objects.

    A scheduler watches no claim templates and no Deployments. Without templates no pod that is created again would get
    its claims.

    Raises:
        ApiError: a list fails.
        httpx.HTTPError: the API server does not answer.
    """
    found: dict[Resource[Any], Mapping[str, Object]] = {}
    refused = []
    for resource in RESOURCES:
        informer = informers.known(resource)
        if informer is not None:
            # In the order of a list: it decides between nodes and devices that are equally good.
            found[resource] = {obj.key: obj for obj in sorted(informer.store.list(), key=_key)}
            continue
        try:
            found[resource] = await _listed(client, resource)
        except ApiError as error:
            if error.code == 403:
                refused.append(resource.group_resource)
            elif error.code != 404:
                raise
    if not refused:
        return Objects(found), []
    names = ", ".join(refused)
    text = f"may not be listed and count as absent: {names}; give the scheduler's user get and list of them"
    return Objects(found), [text]


def _key(obj: Object) -> str:
    return obj.key


async def _listed(client: Client, resource: Resource[Any]) -> dict[str, Object]:
    page = await client.list(resource, limit=_PAGE)
    items = list(page.items)
    while page.metadata.continue_:
        page = await client.list(resource, limit=_PAGE, continue_=page.metadata.continue_)
        items += page.items
    return {obj.key: obj for obj in items}
