"""The objects of a running cluster for plans: those that the scheduler watches, and those that only plans need."""

import httpx
import pytest
from dra_scheduler.plan.clusterworld import cluster_world
from dra_shared.api.resources import DEPLOYMENTS, NODES, RESOURCE_CLAIM_TEMPLATES
from dra_shared.client.errors import ApiError
from dra_shared.client.informer import InformerFactory
from dra_shared.client.rest import Client

from tests.scheduler.objects import node_json
from tests.scheduler.plan.worlds import template_json


def _answer(request: httpx.Request) -> httpx.Response:
    plural = request.url.path.rpartition("/")[2]
    items = {"nodes": [node_json("n")], "resourceclaimtemplates": [template_json("a")]}.get(plural, [])
    if plural in ("deployments", "jobs"):
        return httpx.Response(403, json={"kind": "Status", "code": 403, "reason": "Forbidden"})
    if plural == "podgroups":
        return httpx.Response(404, json={"kind": "Status", "code": 404, "reason": "NotFound"})
    meta = {"continue": "more"} if plural == "resourceclaimtemplates" else {}
    if request.url.params.get("continue") == "more":
        items, meta = [template_json("b")], {}
    return httpx.Response(200, json={"items": items, "metadata": meta})


async def test_kinds_that_only_plans_need_are_listed_from_the_api_server_in_pages() -> None:
    client = Client("http://fake", transport=httpx.MockTransport(_answer))
    informers = InformerFactory(client)
    informers.informer(NODES)
    objects, problems = await cluster_world(informers, client)
    assert list(objects.of(RESOURCE_CLAIM_TEMPLATES)) == ["default/a", "default/b"]
    # The kind is watched, and the informer has not seen any object yet.
    assert not objects.of(NODES)
    (problem,) = problems
    assert problem.startswith("may not be listed and count as absent: deployments.apps, jobs.batch; ")
    assert not objects.knows(DEPLOYMENTS)


async def test_a_failed_list_request_is_an_error() -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        return httpx.Response(500, json={"kind": "Status", "code": 500, "reason": "InternalError"})

    client = Client("http://fake", transport=httpx.MockTransport(fail))
    with pytest.raises(ApiError):
        await cluster_world(InformerFactory(client), client)
