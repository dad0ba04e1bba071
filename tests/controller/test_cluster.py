"""Test the simulated kubelet of the cluster that the controllers' tests use."""

from typing import Any

import pytest

from tests.controller.cluster import POD_SPEC, Cluster

_NODE = {**POD_SPEC, "nodeName": "node-0"}


@pytest.mark.parametrize("is_deleted", [False, True], ids=["new", "deleted"])
async def test_kubelet_does_not_change_a_pod_that_replaced_a_listed_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    """Once, the simulated kubelet deleted the controller's new pod together with the old one of the same name."""
    await cluster.create("Pod", "p", spec=_NODE)
    if is_deleted:
        await cluster.delete("Pod", "p")
    items = cluster.items

    async def list_and_replace(kind: str, namespace: str | None = "default") -> list[Any]:
        listed = await items(kind, namespace)
        await cluster.delete("Pod", "p", grace_period=0)
        await cluster.create("Pod", "p", spec=_NODE)
        return listed

    monkeypatch.setattr(cluster, "items", list_and_replace)
    await cluster.run_pods()
    (pod,) = await items("Pod")
    assert (pod.status.phase, pod.metadata.deletion_timestamp) == ("Pending", None)
