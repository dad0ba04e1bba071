"""Controllers whose informers lag behind the API server, some more than others."""

from typing import Any

import httpx
import pytest
from dra_controller.daemonset import DaemonSetController
from dra_controller.framework import Context, QueueController
from dra_controller.job import JobController
from dra_controller.podgroupprotection import FINALIZER, PodGroupProtectionController
from dra_controller.replicaset import ReplicaSetController
from dra_controller.resourceclaim import ResourceClaimController
from dra_controller.statefulset import StatefulSetController
from dra_shared.api.codec import convert
from dra_shared.api.resources import (
    DAEMON_SETS,
    JOBS,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    STATEFUL_SETS,
    Resource,
)
from dra_shared.client.informer import InformerFactory
from dra_shared.clock import FakeClock, rfc3339
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.podgroups import pod_groups
from prometheus_client import CollectorRegistry

from tests.support.fakeapi import Call, FakeApi

_LABELS = {"app": "x"}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}
_SPEC = {"selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}


class _Behind:
    """A controller whose informers only observe the objects that a test gives them."""

    def __init__(
        self, controller: type[QueueController], *objects: JsonObject, gates: FeatureGates | None = None
    ) -> None:
        self.api, self.clock = FakeApi(*objects), FakeClock()
        self._informers = InformerFactory(self.api.client(), self.clock)
        features = gates or FeatureGates()
        context = Context(self.api.client(), self._informers, self.clock, features, CollectorRegistry())
        self.controller = controller(context)

    def give(self, resource: Resource[Any], obj: JsonObject) -> None:
        """Have an informer observe this state of an object."""
        self._informers.informer(resource)._apply(convert(resource, obj))

    def report(self, resource: Resource[Any], name: str) -> None:
        """Have an informer observe the stored state of an object."""
        self.give(resource, self.api.get(resource.plural, "default", name))

    def pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.api.of("pods")]


def _object(kind: str, name: str, spec: JsonObject, **meta: Any) -> JsonObject:
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": name, **meta},
        "spec": spec,
    }


def _owned_by(kind: str, name: str, version: str = "apps/v1") -> list[JsonObject]:
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}]


def _pod(name: str, owner: list[JsonObject], **spec: Any) -> JsonObject:
    whole = {**_TEMPLATE["spec"], **spec}  # type: ignore[dict-item]  # a template has several types of values
    return _object("Pod", name, whole, labels=_LABELS, ownerReferences=owner)


def _of_uid(uid: str) -> JsonObject:
    spec = {"containers": [], "resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}]}
    return _object("Pod", "web-0", spec, uid=uid)


async def test_a_reservation_is_kept_if_the_informer_still_has_an_older_pod_of_that_name() -> None:
    consumer = {"resource": "pods", "name": "web-0", "uid": "new"}
    claim = {**_object("ResourceClaim", "claim", {}), "status": {"reservedFor": [consumer]}}
    behind = _Behind(ResourceClaimController, _of_uid("new"), claim)
    behind.give(PODS, _of_uid("former"))
    behind.report(RESOURCE_CLAIMS, "claim")
    await behind.controller.reconcile("claim:default/claim")
    assert behind.api.get("resourceclaims", "default", "claim")["status"]["reservedFor"] == [consumer]
    behind.api.add(_of_uid("newest"))
    await behind.controller.reconcile("claim:default/claim")
    assert not behind.api.get("resourceclaims", "default", "claim")["status"].get("reservedFor")


async def test_a_generated_claim_is_kept_if_the_informer_still_has_an_older_pod_of_that_name() -> None:
    owner = [{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "new", "controller": True}]
    behind = _Behind(
        ResourceClaimController,
        _of_uid("new"),
        _object("ResourceClaim", "claim", {}, ownerReferences=owner),
    )
    behind.give(PODS, _of_uid("former"))
    behind.report(RESOURCE_CLAIMS, "claim")
    await behind.controller.reconcile("claim:default/claim")
    assert behind.api.of("resourceclaims")
    behind.api.remove("pods", "default", "web-0")
    await behind.controller.reconcile("claim:default/claim")
    assert not behind.api.of("resourceclaims")


async def test_a_deleted_pod_group_is_kept_for_a_pod_that_the_informer_lacks() -> None:
    gates = FeatureGates(GenericWorkload=True)
    groups = pod_groups(gates.version)
    member = _pod("member", [], schedulingGroup={"podGroupName": "group"})
    going = {"deletionTimestamp": rfc3339(FakeClock().now()), "finalizers": [FINALIZER]}
    behind = _Behind(
        PodGroupProtectionController, member, _object("PodGroup", "group", {}, **going), gates=gates
    )
    behind.report(groups, "group")
    await behind.controller.reconcile("default/group")
    assert behind.api.get("podgroups", "default", "group")["metadata"]["finalizers"] == [FINALIZER]
    behind.api.remove("pods", "default", "member")
    await behind.controller.reconcile("default/group")
    assert not behind.api.has("podgroups", "default", "group")


async def test_a_job_does_not_fail_before_its_pods_are_observed_and_can_be_deleted() -> None:
    spec = {**_SPEC, "parallelism": 1, "completions": 1, "activeDeadlineSeconds": 5, "backoffLimit": 6}
    behind = _Behind(JobController, _object("Job", "job", spec))

    async def reconcile() -> list[str]:
        """Return the types of the Job's conditions after a sync."""
        behind.report(JOBS, "job")
        await behind.controller.reconcile("default/job")
        status = behind.api.get("jobs", "default", "job")["status"]
        return [entry["type"] for entry in status.get("conditions", ())]

    assert await reconcile() == []
    (made,) = behind.pods()
    await behind.clock.advance(6)
    assert await reconcile() == []
    behind.report(PODS, made)
    assert await reconcile() == ["FailureTarget"]
    assert not behind.pods()


async def test_a_daemon_set_pod_is_kept_on_a_node_that_the_informer_lacks() -> None:
    owner = _owned_by("DaemonSet", "agent")
    behind = _Behind(
        DaemonSetController,
        _object("DaemonSet", "agent", _SPEC),
        _pod("placed", owner, nodeName="new"),
        _pod("waits", owner),
    )
    behind.report(DAEMON_SETS, "agent")
    behind.report(PODS, "placed")
    behind.report(PODS, "waits")
    await behind.controller.reconcile("default/agent")
    # The pod garbage collector does not notice that no node can have the pod: it only looks at pods with a
    # node.
    assert behind.pods() == ["placed"]


async def test_volume_claims_are_owned_by_surplus_pods_that_the_informer_lacks() -> None:
    spec = {
        **_SPEC,
        "serviceName": "db",
        "replicas": 0,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
        "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {}}],
    }
    behind = _Behind(
        StatefulSetController,
        _object("StatefulSet", "db", spec),
        _pod("db-0", _owned_by("StatefulSet", "db")),
        _object("PersistentVolumeClaim", "v-db-0", {}),
    )
    behind.report(STATEFUL_SETS, "db")
    behind.report(PODS, "db-0")
    await behind.controller.reconcile("default/db")
    assert not behind.pods()
    (claim,) = behind.api.of("persistentvolumeclaims")
    assert [owner["kind"] for owner in claim["metadata"]["ownerReferences"]] == ["Pod"]


@pytest.mark.parametrize("failure", [httpx.ConnectError("refused"), None], ids=["no answer", "refused"])
async def test_a_failed_deletion_is_retried_soon(failure: Exception | None) -> None:
    """Once, the controller waited five minutes for the end of a pod whose deletion had failed."""
    owner = _owned_by("ReplicaSet", "set")
    behind = _Behind(
        ReplicaSetController,
        _object("ReplicaSet", "set", {**_SPEC, "replicas": 0}),
        _pod("surplus", owner),
    )

    def refuse(call: Call) -> tuple[int, str, str] | None:
        if call.verb != "delete":
            return None
        if failure is not None:
            raise failure
        return 429, "TooManyRequests", "later"

    behind.api.refuse = refuse
    behind.report(REPLICA_SETS, "set")
    behind.report(PODS, "surplus")
    with pytest.raises(Exception, match=r"refused|later"):
        await behind.controller.reconcile("default/set")
    behind.api.refuse = lambda call: None
    await behind.clock.advance(3)
    behind.report(REPLICA_SETS, "set")
    await behind.controller.reconcile("default/set")
    assert not behind.pods()
