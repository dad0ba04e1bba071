"""``dralab up --from``: objects of another cluster in a new one, and drivers that publish its slices."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_kube.cluster import Cluster
from dra_lab.clusteroptions import ClusterOptions
from dra_lab.restore.reading import read_source
from dra_lab.restore.writer import Writer
from dra_lab.services import ClusterServices, Reporter
from dra_node_agent.drivers.placement import parse_placement
from dra_node_agent.drivers.profile import load_profile
from dra_node_agent.drivers.profile.devices import resources
from dra_shared.api.resources import (
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
)
from dra_shared.client.rest import Client
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from tests.support.waiting import until
from tests.support.warm import warm_forks
from tests.worlds.objects import claim, cluster, pod


def _with_owner(obj: JsonObject, kind: str, name: str, version: str = "apps/v1") -> JsonObject:
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    obj["metadata"]["ownerReferences"] = [owner]
    return obj


def _workload(kind: str, name: str) -> JsonObject:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "7", "generation": 3}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """Return a node whose first device is allocated to a pod with the name of a missing priority class."""
    node, piece, device_class, held, holder = cluster(2)
    node["spec"] = {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}
    held["metadata"] |= {"namespace": "team", "finalizers": ["resource.kubernetes.io/delete-protection"]}
    held["status"]["reservedFor"] = [{"resource": "pods", "name": "holder", "uid": "uid-holder"}]
    result = held["status"]["allocation"]["devices"]["results"][0]
    held["status"]["allocation"]["devices"]["config"] = [
        {"source": "FromClaim", "opaque": {"driver": result["driver"], "parameters": {"kind": "Any", "x": 1}}}
    ]
    holder["metadata"] |= {"namespace": "team", "labels": {"app": "x"}}
    holder["spec"] |= {"priorityClassName": "high", "priority": 1000}
    holder["spec"]["containers"][0]["image"] = "x"
    holder["status"] |= {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
    lost = _with_owner(pod("lost", "node-0", "held"), "Widget", "gone", "example.com/v1")
    lost["metadata"]["namespace"] = "team"
    lost["spec"] |= {"resourceClaims": [], "containers": [{"name": "main", "image": "x"}]}
    items = [
        *(
            _with_owner(_with_owner(holder, "ReplicaSet", "r"), "ReplicaSet", "r"),
            _with_owner(held, "Pod", "holder", "v1"),
            lost,
        ),
        *(node, piece, device_class),
        *(_with_owner(_workload("ReplicaSet", "r"), "Deployment", "d"), _workload("Deployment", "d")),
    ]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        ApiServer(Config(port=0, data=tmp_path / "server", relaxed=True)) as server,
        Client(server.url) as client,
    ):
        yield client


async def test_restored_objects_are_unchanged_except_for_uids(
    dump: str, client: Client, tmp_path: Path
) -> None:
    _, objects, _ = read_source(dump, tmp_path)
    problems: list[str] = []
    assert await Writer(client, problems).write(objects) == len(objects) == 8
    assert problems == []
    deployment = await client.get(DEPLOYMENTS, "d", "team")
    replica_set = await client.get(REPLICA_SETS, "r", "team")
    holder = await client.get(PODS, "holder", "team")
    held = await client.get(RESOURCE_CLAIMS, "held", "team")
    assert deployment.metadata.uid != "uid-d"
    assert [o.uid for o in replica_set.metadata.owner_references] == [deployment.metadata.uid]
    assert [o.uid for o in holder.metadata.owner_references] == [replica_set.metadata.uid]
    assert (holder.spec.node_name, holder.spec.priority, holder.status.phase) == ("node-0", 1000, "Running")
    assert holder.status.pod_ip == ""
    assert [o.uid for o in held.metadata.owner_references] == [holder.metadata.uid]
    assert [c.uid for c in held.status.reserved_for] == [holder.metadata.uid]
    assert held.status.allocation is not None
    assert [r.device for r in held.status.allocation.devices.results] == ["gpu-0"]
    assert held.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    # A missing owner would delete the pod.
    assert (await client.get(PODS, "lost", "team")).metadata.owner_references == ()
    # A second conversion changes nothing.
    assert await Writer(client, problems).write(objects) == len(objects)
    assert (await client.get(PODS, "holder", "team")).metadata.uid == holder.metadata.uid


def test_the_service_of_the_api_server_is_not_restored(tmp_path: Path) -> None:
    meta = {"name": "kubernetes", "namespace": "default"}
    own = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"clusterIP": "10.96.0.1"}}
    other = {**own, "metadata": {"name": "kubernetes", "namespace": "team"}, "spec": {}}
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*cluster(1), own, other]}))
    _, objects, _ = read_source(str(file), tmp_path)
    found = [obj["metadata"]["namespace"] for _, obj in objects if obj["kind"] == "Service"]
    assert found == ["team"]


def test_drivers_publish_the_devices_of_the_dumped_slices(dump: str, tmp_path: Path) -> None:
    pools, _, _ = read_source(dump, tmp_path)
    ((pool,),) = [pools]
    assert (pool.nodes, pool.cpu, pool.memory) == (["node-0"], "4", "8Gi")
    (driver,) = pool.drivers
    assert parse_placement(driver, 1).nodes == frozenset({0})
    found = resources(load_profile(parse_placement(driver, 1).name), "node-0")
    assert list(found.pools) == ["node-0"]
    (piece,) = found.pools["node-0"].slices
    assert [(d.name, d.attributes["index"].int_) for d in piece.devices] == [("gpu-0", 0), ("gpu-1", 1)]


def test_a_dump_without_nodes_cannot_start_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim("c")]}))
    with pytest.raises(UserError, match="there are no nodes in"):
        read_source(str(path), tmp_path)


@pytest.mark.parametrize("content", [b"just words", b"{}", b"", b"\x8b\xff\x00"])
def test_a_file_that_is_not_a_dump_cannot_start_a_cluster(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"d\.json is not a snapshot, a kubeconfig, or a dump"):
        read_source(str(path), tmp_path)


@pytest.mark.system
async def test_a_cluster_continues_from_a_dump(dump: str, tmp_path: Path) -> None:
    """The node is ready, the pod runs with its device, and its slices are published."""
    pools, objects, _ = read_source(dump, tmp_path)
    made = Cluster(tmp_path / "cluster")
    options = ClusterOptions(
        port=0, nodes=0, fleet=pools, restored=objects, relaxed=True, without=("scheduler",)
    )
    with made.locked(), warm_forks() as forks:
        services = ClusterServices(made, options, Reporter(), forks)
        async with services.run(), made.client("test") as client:

            async def runs() -> bool:
                pod = await client.get(PODS, "holder", "team")
                return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)

            await until(runs)
            held = await client.get(RESOURCE_CLAIMS, "held", "team")
            assert held.status.allocation is not None
            assert held.status.allocation.devices.results[0].device == "gpu-0"
            pieces = (await client.list(RESOURCE_SLICES)).items
            assert [(p.spec.driver, len(p.spec.devices)) for p in pieces] == [("gpu.example.com", 2)]


def test_gates_that_restored_objects_need_are_enabled(
    dump: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = read_source(dump, tmp_path)
    assert plain.feature_gates("DRAAdminAccess=false", "1.35") == "DRAAdminAccess=false"
    held = json.loads(Path(dump).read_text())
    node = next(each for each in held["items"] if each["kind"] == "Node")
    node["status"]["declaredFeatures"] = ["GuaranteedQoSPodCPUResize"]
    Path(dump).write_text(json.dumps(held))
    found = read_source(dump, tmp_path)
    assert found.feature_gates("", "1.35") == "NodeDeclaredFeatures=true"
    assert "feature gates that objects need are on: NodeDeclaredFeatures (Node" in capsys.readouterr().err
    assert found.feature_gates("NodeDeclaredFeatures=false", "1.35") == "NodeDeclaredFeatures=false"
    assert found.feature_gates("", "1.37") == ""


@pytest.fixture
def dump_with_limits(dump: str) -> str:
    """Return the dump with a quota and a limit range that reject its pods."""
    meta = {"name": "small", "namespace": "team", "uid": "uid-small"}
    least = {"limits": [{"type": "Container", "min": {"cpu": "1"}}]}
    held = json.loads(Path(dump).read_text())
    held["items"] += [
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {"pods": "1"}}},
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": least},
    ]
    Path(dump).write_text(json.dumps(held))
    return dump


async def test_limits_and_quotas_do_not_reject_restored_pods(
    dump_with_limits: str, client: Client, tmp_path: Path
) -> None:
    objects = read_source(dump_with_limits, tmp_path).objects
    problems: list[str] = []
    assert await Writer(client, problems).write(objects) == len(objects) == 10
    assert problems == []
    assert (await client.get(RESOURCE_QUOTAS, "small", "team")).spec.hard == {"pods": "1"}
