"""PodDisruptionBudgets, counted from real pods."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
from dra_shared.api.codec import convert
from dra_shared.api.policy import PodDisruptionBudgetStatus
from dra_shared.api.resources import EVENTS, POD_DISRUPTION_BUDGETS

from tests.controller.cluster import POD_SPEC, Cluster, controllers

_NAME = "disruption-controller"
_LABELS = {"app": "x"}


async def _budget(cluster: Cluster, **spec: Any) -> None:
    body = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": _LABELS}, **spec},
    }
    await cluster.client.create(POD_DISRUPTION_BUDGETS, convert(POD_DISRUPTION_BUDGETS, body))


async def _status(cluster: Cluster) -> PodDisruptionBudgetStatus:
    return (await cluster.client.get(POD_DISRUPTION_BUDGETS, "b", "default")).status


def _counts(cluster: Cluster, *wanted: int) -> Callable[[], Awaitable[bool]]:
    async def is_counted() -> bool:
        status = await _status(cluster)
        found = (status.disruptions_allowed, status.current_healthy, status.desired_healthy)
        return found == wanted

    return is_counted


async def _evict(cluster: Cluster, name: str) -> int:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    return (await cluster.client.raw("POST", path, content=orjson.dumps(eviction))).status_code


async def test_evictions_beyond_the_budget_are_rejected(cluster: Cluster) -> None:
    await _budget(cluster, minAvailable=2)
    for name in ("p1", "p2", "p3"):
        await cluster.create("Pod", name, metadata={"labels": _LABELS}, spec=POD_SPEC)
    async with controllers(cluster, _NAME):
        await cluster.run_pods()
        await cluster.until(_counts(cluster, 1, 3, 2))
        (condition,) = (await _status(cluster)).conditions
        assert (condition.type, condition.status, condition.reason) == (
            "DisruptionAllowed", "True", "SufficientPods",
        )  # fmt: skip
        # The second must be refused though the controller may not have counted again.
        assert [await _evict(cluster, name) for name in ("p1", "p2")] == [201, 429]
        await cluster.run_pods()

        async def is_cleared() -> bool:
            return not (await _status(cluster)).disrupted_pods

        await cluster.until(is_cleared)
        assert await _counts(cluster, 0, 2, 2)()


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"maxUnavailable": 1}, (1, 3, 2)),
        ({"maxUnavailable": "50%"}, (2, 3, 1)),
        ({"minAvailable": "50%"}, (1, 3, 2)),
    ],
)
async def test_percentages_refer_to_the_replicas_of_the_owner(
    cluster: Cluster, spec: dict[str, Any], wanted: tuple[int, int, int]
) -> None:
    await _budget(cluster, **spec)
    template = {"metadata": {"labels": _LABELS}, "spec": POD_SPEC}
    async with controllers(cluster, _NAME, "replicaset-controller"):
        await cluster.create(
            "ReplicaSet",
            "r",
            spec={"replicas": 3, "selector": {"matchLabels": _LABELS}, "template": template},
        )
        await cluster.until(_counts(cluster, *wanted), meanwhile=cluster.run_pods)


async def test_events_report_budgets_without_pods_and_pods_with_two_budgets(cluster: Cluster) -> None:
    await _budget(cluster, minAvailable=1)
    body = {
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": _LABELS}},
    }
    await cluster.client.create(POD_DISRUPTION_BUDGETS, convert(POD_DISRUPTION_BUDGETS, body))

    async def is_reported(*wanted: tuple[str, str, str]) -> bool:
        events = (await cluster.client.list(EVENTS, "default")).items
        assert {event.source.component for event in events} <= {"controllermanager"}
        return {(event.involved_object.name, event.reason, event.message) for event in events} == set(wanted)

    none = [(name, "NoPods", "No matching pods found") for name in ("a", "b")]
    both = 'Pod "default"/"p" matches multiple PodDisruptionBudgets.  Chose "a" arbitrarily.'
    async with controllers(cluster, _NAME):
        await cluster.until(lambda: is_reported(*none))
        await cluster.create("Pod", "p", metadata={"labels": _LABELS}, spec=POD_SPEC)
        await cluster.until(lambda: is_reported(*none, ("p", "MultiplePodDisruptionBudgets", both)))


async def test_events_report_pods_that_no_controller_manages(cluster: Cluster) -> None:
    await _budget(cluster, maxUnavailable=1)
    await cluster.create("Pod", "p", metadata={"labels": _LABELS}, spec=POD_SPEC)
    (name, value), *_ = _LABELS.items()
    text = (
        "Pods selected by this PodDisruptionBudget (selector: "
        f"&LabelSelector{{MatchLabels:map[string]string{{{name}: {value},}},"
        "MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status of the "
        "PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
        'set ".spec.minAvailable" field of the PDB to an integer value.'
    )

    async def is_reported() -> bool:
        events = (await cluster.client.list(EVENTS, "default")).items
        return [(event.reason, event.message) for event in events] == [("UnmanagedPods", text)]

    async with controllers(cluster, _NAME):
        await cluster.until(is_reported)
