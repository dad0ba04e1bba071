"""StatefulSets against a real API server: revisions, events and partitions are those of upstream."""

from typing import Any

import httpx
from dra_shared.api.resources import CONTROLLER_REVISIONS, EVENTS, STATEFUL_SETS
from dra_shared.client.transport import HttpTransport

from tests.controller.cluster import Cluster, controllers
from tests.support.waiting import until

_LABELS = {"app": "db"}
_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "busybox:2"}]}}}}


def _stateful_set(**spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "busybox"}]}
    template = {"metadata": {"labels": _LABELS}, "spec": pod}
    return {"spec": {"serviceName": "db", "selector": {"matchLabels": _LABELS}, "template": template, **spec}}


async def _has_updated_replicas(cluster: Cluster, number: int) -> bool:
    found = await cluster.get("StatefulSet", "db")
    assert found is not None
    status = found.status
    counts = (status.updated_replicas or 0, status.available_replicas)
    return counts == (number, found.spec.replicas) and status.observed_generation == found.metadata.generation


async def test_revisions_have_upstream_names_and_labels(cluster: Cluster) -> None:
    """The hashes are those of kube-controller-manager 1.36 for these two templates."""
    async with controllers(cluster, "statefulset-controller"):
        await cluster.create(
            "StatefulSet", "db", **_stateful_set(replicas=1), metadata={"annotations": {"a": "b"}}
        )
        await cluster.until(lambda: _has_updated_replicas(cluster, 1), meanwhile=cluster.run_pods)
        (pod,) = await cluster.items("Pod")
        assert pod.metadata.labels["controller-revision-hash"] == "db-f58946c8b"
        await cluster.client.patch(STATEFUL_SETS, "db", _IMAGE, "default")
        await cluster.until(lambda: _has_updated_replicas(cluster, 1), meanwhile=cluster.run_pods)
    found = await cluster.client.list(CONTROLLER_REVISIONS, "default")
    revisions = {revision.metadata.name: revision for revision in found.items}
    assert set(revisions) == {"db-f58946c8b", "db-75b7795896"}
    first = revisions["db-f58946c8b"].metadata
    assert first.labels == {"app": "db", "controller.kubernetes.io/hash": "f58946c8b"}
    assert first.annotations == {"a": "b"}
    (db,) = await cluster.items("StatefulSet")
    assert db.status.current_revision == db.status.update_revision == "db-75b7795896"
    (pod,) = await cluster.items("Pod")
    assert pod.metadata.labels["controller-revision-hash"] == "db-75b7795896"


async def test_pods_below_the_partition_keep_the_old_revision(cluster: Cluster) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    spec = _stateful_set(
        replicas=2, podManagementPolicy="Parallel", updateStrategy=strategy, ordinals={"start": 5}
    )
    async with controllers(cluster, "statefulset-controller"):
        await cluster.create("StatefulSet", "db", **spec)
        await cluster.until(lambda: _has_updated_replicas(cluster, 2), meanwhile=cluster.run_pods)
        await cluster.client.patch(STATEFUL_SETS, "db", _IMAGE, "default")
        await cluster.until(lambda: _has_updated_replicas(cluster, 1), meanwhile=cluster.run_pods)
        await cluster.delete("Pod", "db-5", grace_period=0)

        async def back() -> bool:
            (db,) = await cluster.items("StatefulSet")
            counted = (db.status.current_replicas, db.status.updated_replicas) == (1, 1)
            return (
                counted
                and await cluster.get("Pod", "db-5") is not None
                and await _has_updated_replicas(cluster, 1)
            )

        await cluster.until(back, meanwhile=cluster.run_pods)
    images = {pod.metadata.name: pod.spec.containers[0].image for pod in await cluster.items("Pod")}
    assert images == {"db-5": "busybox", "db-6": "busybox:2"}


async def test_events_have_the_upstream_messages(cluster: Cluster) -> None:
    async with controllers(cluster, "statefulset-controller") as manager:
        await cluster.create("StatefulSet", "db", **_stateful_set(replicas=1))
        await cluster.until(lambda: _has_updated_replicas(cluster, 1), meanwhile=cluster.run_pods)
        await cluster.client.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 0}}, "default")
        await cluster.until(lambda: _has_updated_replicas(cluster, 0), meanwhile=cluster.run_pods)
        assert manager.ready

        async def is_reported() -> bool:
            events = await cluster.client.list(EVENTS, "default")
            return {(event.reason, event.message) for event in events.items} == {
                ("SuccessfulCreate", "Create Pod db-0 in StatefulSet db successful"),
                ("SuccessfulDelete", "Delete Pod db-0 in StatefulSet db successful"),
            }

        await cluster.until(is_reported)


async def test_a_failed_pod_is_created_again(cluster: Cluster) -> None:
    """There is no separate event, as in 1.36."""
    async with controllers(cluster, "statefulset-controller"):
        await cluster.create("StatefulSet", "db", **_stateful_set(replicas=1))
        await cluster.until(lambda: _has_updated_replicas(cluster, 1), meanwhile=cluster.run_pods)
        (pod,) = await cluster.items("Pod")
        await cluster.set_status("Pod", pod, phase="Failed")

        async def is_recreated() -> bool:
            found = await cluster.get("Pod", "db-0")
            return found is not None and found.metadata.uid != pod.metadata.uid

        await cluster.until(is_recreated, meanwhile=cluster.run_pods)

        async def is_reported() -> bool:
            events = await cluster.client.list(EVENTS, "default")
            return sorted((event.reason, event.count or 1) for event in events.items) == [
                ("SuccessfulCreate", 2),
                ("SuccessfulDelete", 1),
            ]

        await cluster.until(is_reported)


class _LosesFirstPod(httpx.AsyncBaseTransport):
    """Loses the answer to the first creation of a pod."""

    def __init__(self) -> None:
        self._inner = HttpTransport()
        self._is_lost = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if request.method == "POST" and request.url.path.endswith("/pods") and not self._is_lost:
            self._is_lost = True
            await response.aread()
            raise httpx.RemoteProtocolError("the answer got lost", request=request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_a_pod_creation_whose_response_is_lost_is_reported_as_failed(cluster: Cluster) -> None:
    """The pod exists, so the next try finds it and reports nothing, as in 1.36."""
    async with controllers(cluster, "statefulset-controller", transport=_LosesFirstPod()):
        await cluster.create("StatefulSet", "db", **_stateful_set(replicas=1))
        await cluster.until(lambda: _has_updated_replicas(cluster, 1), meanwhile=cluster.run_pods)

        async def list_reasons() -> list[tuple[str, str]]:
            events = await cluster.client.list(EVENTS, "default")
            return [(event.type, event.reason) for event in events.items]

        assert await until(list_reasons) == [("Warning", "FailedCreate")]
