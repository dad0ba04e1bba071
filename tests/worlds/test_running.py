"""Plans use the version and the feature gates of the cluster."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from dra_cli.commandline import run
from dra_shared.client.rest import Client
from dra_shared.jsontypes import JsonObject
from dra_shared.version import DEFAULT, V1_34, V1_35, V1_36, V1_37, V1_38
from dra_worlds.running import Running, newest_of, of_cluster
from dra_worlds.working import Settings

from tests.worlds.objects import claim, cluster, pod

_METRICS = """
kubernetes_feature_enabled{name="DRADerivedAttributes",stage="ALPHA"} 1
kubernetes_feature_enabled{name="DRAPrioritizedList",stage=""} 1
kubernetes_feature_enabled{name="SomeVendorsOwn",stage="ALPHA"} 1
"""


class _Reported(Client):
    """A client of an API server that responds to two paths."""

    def __init__(self, version: str, metrics: str) -> None:
        self._answers = {"/version": json.dumps({"gitVersion": version}), "/metrics": metrics}

    async def raw(self, method: str, path: str, **more: object) -> httpx.Response:
        text = self._answers[path]
        return httpx.Response(200 if text else 403, text=text or "Forbidden")


def _read_running(version: str, metrics: str = "") -> tuple[Running, list[str]]:
    problems: list[str] = []
    return asyncio.run(of_cluster(_Reported(version, metrics), problems)), problems


def test_version_and_gates_are_read_from_the_cluster() -> None:
    reported = frozenset({"DRADerivedAttributes", "DRAPrioritizedList"})
    found = Running(V1_37, {"DRADerivedAttributes": True}, reported)
    assert _read_running("v1.37.2-eks-1234", _METRICS) == (found, [])
    assert found.states() == {"DRADerivedAttributes": True, "DRAPrioritizedList": True}
    assert _read_running("v1.35.0") == (Running(V1_35), [])


def test_an_unsupported_version_of_a_cluster_is_replaced_by_the_nearest_supported_one() -> None:
    for version, nearest in (("v1.32.1", V1_34), ("v1.40.0", V1_38)):
        found, problems = _read_running(version)
        assert found == Running(nearest)
        assert problems == [f"Kubernetes {version[1:-2]} is not known: the scheduler of {nearest} decides"]


def test_options_override_the_version_and_gates_of_the_cluster() -> None:
    cluster = Running(V1_37, {"DRADerivedAttributes": True, "DRAConsumableCapacity": False})
    assert Settings().features()[0] == DEFAULT
    assert Settings(cluster=cluster).features() == (V1_37, {**cluster.gates})
    gates = "DRAConsumableCapacity=true,DRADerivedAttributes=false"
    set_here = {"DRADerivedAttributes": False, "DRAConsumableCapacity": True}
    assert Settings(gates, cluster=cluster).features() == (V1_37, set_here)
    assert Settings(version="1.36", cluster=cluster).features() == (V1_36, {"DRAConsumableCapacity": False})


def test_version_of_a_cluster_is_that_of_its_newest_kubelet() -> None:
    assert newest_of(["v1.9.3", "", "v1.36.2", "v1.35.0"]) == "1.36"
    assert newest_of([]) == ""


def _incompatible_partitions(kubelet: str) -> list[JsonObject]:
    """Return a node with a GPU that is partitioned in a way that is incompatible with another partitioning."""
    node, piece, device_class, *_ = cluster()
    node["status"]["nodeInfo"] = {"kubeletVersion": kubelet}
    counters = {"memory": {"value": "4"}}
    sets = json.loads(json.dumps(piece))
    sets["metadata"] = {"name": "sets", "uid": "sets"}
    sets["apiVersion"] = piece["apiVersion"] = "resource.k8s.io/v1"
    sets["spec"] |= {"sharedCounters": [{"name": "gpu", "counters": counters}]}
    del sets["spec"]["devices"]
    used = {"counterSet": "gpu", "counters": {"memory": {"value": "1"}}}
    for each in (piece, sets):
        each["spec"]["pool"]["resourceSliceCount"] = 2
    piece["spec"]["devices"] = [
        {"name": f"gpu-{n}", "consumesCounters": [{**used, "compatibilityGroups": [group]}]}
        for n, group in enumerate(("mig", "vgpu"))
    ]
    return [node, piece, sets, device_class, claim("held", "gpu-0"), pod("holder", "node-0", "held")]


@pytest.fixture
def fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., int]:
    """Return a function that counts how many more pods with a device fit into a dump."""

    def count_fitting(items: list[JsonObject], *options: str) -> int:
        dump, wanted = tmp_path / "dump.json", tmp_path / "wanted.json"
        dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        more = [pod("more", "", "more"), claim("more")]
        wanted.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": more}))
        run("plan", ["fit", str(wanted), "--from", str(dump), "-o", "json", *options])
        return int(json.loads(capsys.readouterr().out)["fits"])

    return count_fitting


def test_compatibility_groups_are_applied_if_the_cluster_supports_them(fits: Callable[..., int]) -> None:
    gate = ("--feature-gates", "DRADeviceCompatibilityGroups=true,DRAPartitionableDevices=true")
    assert fits(_incompatible_partitions("v1.37.0"), *gate) == 0
    # 1.36 does not know the field, and 1.37 without the gate ignores such slices.
    assert fits(_incompatible_partitions("v1.36.2")) == 1
    assert fits(_incompatible_partitions("v1.36.2"), "--kubernetes-version", "1.37") == 0
