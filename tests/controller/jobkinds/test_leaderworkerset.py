"""LeaderWorkerSets on a real API server: their groups, updates, and the conditions of the operator."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from dra_controller.jobkinds.leaderworkerset.admission import admit
from dra_controller.jobkinds.leaderworkerset.rollout import Group, plan_rollout
from dra_controller.jobkinds.leaderworkerset.sets import (
    GROUP_INDEX,
    GROUP_KEY,
    LEADER_REQUESTS_TPUS,
    NAME,
    REVISION,
    SIZE,
    SUBGROUP_INDEX,
    SUBGROUP_SIZE,
    WORKER_INDEX,
)
from dra_controller.jobkinds.operators import LEADER_WORKER_SETS
from dra_shared.api.apps import StatefulSet
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import CONTROLLER_REVISIONS, PODS, SERVICES, STATEFUL_SETS
from dra_shared.jsontypes import JsonObject

from tests.controller.cluster import Cluster, controllers
from tests.controller.jobkinds.kinds import NAMESPACE, Kinds, conditions, is_true, pod_template
from tests.support.cases import each_case

_RACK = "example.com/rack"


def _describe(replicas: int = 2, size: int = 3, **spec: Any) -> JsonObject:
    template = {"size": size, "workerTemplate": pod_template(), **spec.pop("leaderWorkerTemplate", {})}
    return {"replicas": replicas, "leaderWorkerTemplate": template, **spec}


def _variables(pod: Pod) -> dict[str, str]:
    return {one.name: one.value for one in pod.spec.containers[0].env}


@pytest.fixture
async def kinds(cluster: Cluster) -> AsyncIterator[Kinds]:
    names = ("leaderworkerset", "statefulset", "garbagecollector")
    async with controllers(cluster, *names, operators=("lws",)):
        yield Kinds(cluster)


async def test_each_group_has_a_leader_and_workers_with_its_address(kinds: Kinds) -> None:
    made = await kinds.create(LEADER_WORKER_SETS, "serve", _describe())
    assert made.spec["rolloutStrategy"]["rollingUpdateConfiguration"]["maxUnavailable"] == 1
    assert made.spec["networkConfig"] == {"subdomainPolicy": "Shared"}
    pods = {pod.metadata.name: pod for pod in await kinds.wait_for_pods(6)}
    assert sorted(pods) == ["serve-0", "serve-0-1", "serve-0-2", "serve-1", "serve-1-1", "serve-1-2"]
    assert await kinds.names(STATEFUL_SETS) == ["serve", "serve-0", "serve-1"]
    worker = pods["serve-1-2"]
    assert _variables(worker) == {
        "LWS_LEADER_ADDRESS": "serve-1.serve.default",
        "LWS_GROUP_SIZE": "3",
        "LWS_WORKER_INDEX": "2",
    }
    assert _variables(pods["serve-1"])["LWS_WORKER_INDEX"] == "0"
    labels = worker.metadata.labels
    assert (labels[NAME], labels[GROUP_INDEX], labels[WORKER_INDEX]) == ("serve", "1", "2")
    assert labels[GROUP_KEY] == hashlib.sha1(b"default/serve-1", usedforsecurity=False).hexdigest()
    service = await kinds.get(SERVICES, "serve")
    assert (service.spec.cluster_ip, service.spec.selector) == ("None", {NAME: "serve"})
    done = await kinds.wait(LEADER_WORKER_SETS, "serve", is_true("Available"))
    assert conditions(done)["Available"] == ("True", "AllGroupsReady")
    assert conditions(done)["Progressing"] == ("False", "GroupsProgressing")
    status = {key: value for key, value in done.status.items() if key != "conditions"}
    assert status == {
        "replicas": 2,
        "readyReplicas": 2,
        "updatedReplicas": 2,
        "observedGeneration": 1,
        "hpaPodSelector": f"{NAME}=serve,{WORKER_INDEX}=0",
    }
    await kinds.wait_for_events("serve", "CreatingRevision", "GroupsProgressing", "AllGroupsReady")


async def test_resource_quantities_of_a_leaderworkerset_may_be_numbers(kinds: Kinds) -> None:
    template = pod_template()
    template["spec"]["containers"][0]["resources"] = {"limits": {"google.com/tpu": 4}}
    await kinds.create(
        LEADER_WORKER_SETS, "serve", _describe(1, 2, leaderWorkerTemplate={"workerTemplate": template})
    )
    pods = await kinds.wait_for_pods(2)
    assert pods[1].spec.containers[0].resources.limits == {"google.com/tpu": "4"}


async def test_a_leaderworkerset_is_scaled_by_adding_and_removing_groups(kinds: Kinds) -> None:
    await kinds.create(LEADER_WORKER_SETS, "serve", _describe(1, 2))
    await kinds.wait_for_pods(2)
    await kinds.patch(LEADER_WORKER_SETS, "serve", {"replicas": 2})
    await kinds.wait_for_pods(4)
    await kinds.patch(LEADER_WORKER_SETS, "serve", {"replicas": 1})
    pods = await kinds.wait_for_pods(2)
    assert [pod.metadata.name for pod in pods] == ["serve-0", "serve-0-1"]


async def test_a_new_template_is_rolled_out_from_the_last_group(kinds: Kinds) -> None:
    await kinds.create(LEADER_WORKER_SETS, "serve", _describe(2, 2))
    old = (await kinds.wait_for_pods(4))[0].metadata.labels[REVISION]
    await kinds.wait(LEADER_WORKER_SETS, "serve", is_true("Available"))
    template = {"workerTemplate": pod_template(terminationGracePeriodSeconds=1)}
    await kinds.patch(LEADER_WORKER_SETS, "serve", {"leaderWorkerTemplate": template})
    await kinds.wait(LEADER_WORKER_SETS, "serve", is_true("UpdateInProgress"))
    done = await kinds.wait(
        LEADER_WORKER_SETS, "serve", lambda obj: conditions(obj)["Available"][0] == "True"
    )
    assert done.status["updatedReplicas"] == 2
    pods = await kinds.wait_for_pods(4)
    assert {pod.spec.termination_grace_period_seconds for pod in pods} == {1}
    assert old not in {pod.metadata.labels[REVISION] for pod in pods}
    await kinds.wait(
        STATEFUL_SETS, "serve", lambda obj: obj.spec.update_strategy.rolling_update.partition == 0
    )

    async def is_one() -> bool:
        owners = [one.metadata.owner_references[0].kind for one in await kinds.items(CONTROLLER_REVISIONS)]
        return owners.count("LeaderWorkerSet") == 1

    await kinds.cluster.until(is_one, meanwhile=kinds.cluster.run_pods)


async def test_a_group_is_recreated_when_a_worker_is_deleted(kinds: Kinds) -> None:
    # A pod on a node has time to stop. Without one it may be gone before the controller sees that it ends.
    template = {"workerTemplate": pod_template(nodeName="node-1")}
    await kinds.create(LEADER_WORKER_SETS, "serve", _describe(1, 2, leaderWorkerTemplate=template))
    before = {pod.metadata.uid for pod in await kinds.wait_for_pods(2)}
    await kinds.wait(LEADER_WORKER_SETS, "serve", is_true("Available"))
    await kinds.client.delete(PODS, "serve-0-1", NAMESPACE)
    await kinds.wait_for_events("serve", "RecreateGroup")

    async def are_new() -> bool:
        pods = await kinds.active_pods()
        return len(pods) == 2 and not before & {pod.metadata.uid for pod in pods}

    await kinds.cluster.until(are_new, meanwhile=kinds.cluster.run_pods)


async def test_workers_wait_for_a_ready_leader_if_the_startup_policy_is_leader_ready(kinds: Kinds) -> None:
    await kinds.create(LEADER_WORKER_SETS, "serve", _describe(1, 2, startupPolicy="LeaderReady"))
    await kinds.wait_for_pods(1, run=False)
    await kinds.wait(LEADER_WORKER_SETS, "serve", is_true("Progressing"), run=False)
    assert await kinds.names(STATEFUL_SETS) == ["serve"]
    await kinds.wait_for_pods(2)


async def test_an_exclusive_group_is_scheduled_to_the_domain_of_its_leader(kinds: Kinds) -> None:
    await kinds.cluster.create("Node", "n1", metadata={"name": "n1", "labels": {_RACK: "r1"}})
    annotations = {"leaderworkerset.sigs.k8s.io/exclusive-topology": _RACK}
    await kinds.create(LEADER_WORKER_SETS, "serve", _describe(1, 2), annotations=annotations)
    (leader,) = await kinds.wait_for_pods(1, run=False)
    affinity = leader.spec.affinity
    assert affinity is not None
    assert affinity.pod_anti_affinity is not None
    (term,) = affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
    assert term.topology_key == _RACK
    body = {"metadata": {"name": "serve-0"}, "target": {"kind": "Node", "name": "n1"}}
    await kinds.client.create_subresource(PODS, "serve-0", "binding", body, NAMESPACE)
    pods = await kinds.wait_for_pods(2)
    assert pods[1].spec.node_selector == {_RACK: "r1"}


async def test_each_group_has_its_own_subdomain_with_the_policy_unique_per_replica(kinds: Kinds) -> None:
    network = {"subdomainPolicy": "UniquePerReplica"}
    await kinds.create(LEADER_WORKER_SETS, "serve", _describe(1, 2, networkConfig=network))
    leader, worker = await kinds.wait_for_pods(2)
    assert (leader.spec.subdomain, worker.spec.subdomain) == ("serve-0", "serve-0")
    assert _variables(worker)["LWS_LEADER_ADDRESS"] == "serve-0.serve-0.default"
    await kinds.wait(SERVICES, "serve-0", lambda service: service is not None)
    assert await kinds.get(SERVICES, "serve") is None


@pytest.mark.parametrize(
    ("size", "subgroup", "index", "expected"),
    [(4, 2, 1, "0"), (4, 2, 3, "1"), (5, 2, 2, "0"), (5, 2, 3, "1")],
)
def test_workers_of_a_group_are_divided_into_subgroups(
    size: int, subgroup: int, index: int, expected: str
) -> None:
    pod = admit(_worker(index, {SIZE: str(size), SUBGROUP_SIZE: str(subgroup)}))
    assert pod.metadata.labels[SUBGROUP_INDEX] == expected


@pytest.mark.parametrize(
    ("leads", "worker", "hosts"),
    [("true", "2", "s-0.s,s-0-1.s,s-0-2.s"), ("false", "1", "s-0-1.s,s-0-2.s")],
)
def test_workers_with_tpus_get_the_environment_of_their_slice(leads: str, worker: str, hosts: str) -> None:
    container = {
        "resources": {"limits": {"google.com/tpu": "4"}},
        "env": [{"name": "MODE", "value": "fast"}],
    }
    pod = admit(_worker(2, {SIZE: "3", LEADER_REQUESTS_TPUS: leads}, **container))
    variables = _variables(pod)
    assert variables["TPU_WORKER_HOSTNAMES"] == hosts
    assert (variables["TPU_WORKER_ID"], variables["TPU_NAME"]) == (worker, "s-0")
    assert variables["TPU_PROCESS_ADDRESSES"] == ",".join(f"{host}:8476" for host in hosts.split(","))


def _worker(index: int, annotations: dict[str, str], **container: Any) -> Pod:
    name = "leaderworkerset.sigs.k8s.io/leader-name"
    return convert(
        PODS,
        {
            "metadata": {
                "name": f"s-0-{index}",
                "namespace": NAMESPACE,
                "labels": {NAME: "s", GROUP_INDEX: "0"},
                "annotations": {name: "s-0", **annotations},
            },
            "spec": {"subdomain": "s", "containers": [{"name": "main", **container}]},
        },
    )


_READY, _OLD, _DOWN = Group(ready=True, updated=True), Group(ready=True), Group()


@each_case(
    ("groups", "partition", "surge", "expected"),
    [
        # One group at a time, from the last.
        ([_OLD, _OLD, _OLD, _OLD], 4, 0, (3, 4)),
        ([_OLD, _OLD, _OLD, _DOWN], 3, 0, (3, 4)),
        ([_OLD, _OLD, _OLD, _READY], 3, 0, (2, 4)),
        ([_READY, _READY, _READY, _READY], 0, 0, (0, 4)),
        # A group that is down is updated without waiting for others that are down.
        ([_OLD, _OLD, _DOWN, _DOWN], 4, 0, (3, 4)),
        # The surge group is updated first and deleted last.
        ([_OLD, _OLD, _OLD, _OLD, _READY], 4, 1, (2, 5)),
        ([_READY, _READY, _READY, _READY, _READY], 0, 1, (0, 4)),
    ],
)
def test_the_rolling_update_partition_is_lowered_as_groups_become_ready(
    groups: list[Group], partition: int, surge: int, expected: tuple[int, int]
) -> None:
    rolling = {"maxUnavailable": 1, "maxSurge": surge, "partition": 0}
    spec = {"replicas": 4, "rolloutStrategy": {"rollingUpdateConfiguration": rolling}}
    leaders = convert(
        STATEFUL_SETS,
        {
            "metadata": {"name": "s", "annotations": {"leaderworkerset.sigs.k8s.io/replicas": "4"}},
            "spec": {
                "replicas": len(groups),
                "updateStrategy": {"rollingUpdate": {"partition": partition}},
            },
        },
    )
    assert isinstance(leaders, StatefulSet)
    assert plan_rollout(spec, leaders, groups, is_new=False) == expected
