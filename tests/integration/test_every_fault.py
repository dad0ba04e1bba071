"""Every fault by command, over HTTP and from Python: it begins, is undone early, and pods can start again."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dra_kube.cluster
import httpx
import pytest
from dra_cli import commandline
from dra_shared.faults.catalog import KINDS
from dralab.testing import Cluster

from tests.support.sampling import sample
from tests.support.waiting import blocking_until

pytestmark = [pytest.mark.slow, pytest.mark.system]

_POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: it, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: it, resourceClaimTemplateName: one}]
  containers:
  - {name: c, image: any, command: [sleep, "99999"], resources: {claims: [{name: it}]}}
"""
#: Longer than the test: each fault ends because it is cleared.
_LONG = 3600
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "stop": {"service": "scheduler"},
    "kill": {"service": "scheduler"},
    "xid": {"gpu": 1},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(
        nodes=1, gpus="1xA100-SXM4-40GB:1g.5gb+1g.5gb,1xA100-SXM4-40GB:whole", processes=True
    ) as made:
        yield made


def _by_command(cluster: Cluster, name: str, arguments: dict[str, Any]) -> None:
    options = {"gpu": "--gpu"}
    words = [str(value) for key, value in arguments.items() if key == "service"]
    words += [
        word for key, value in arguments.items() if key in options for word in (options[key], str(value))
    ]
    data = ["--data", str(cluster.data)]
    assert commandline.run("fault", [name, *words, "--for", str(_LONG), "--no-check", *data]) == 0
    assert commandline.run("fault", ["clear", *data]) == 0


def _over_http(cluster: Cluster, name: str, arguments: dict[str, Any]) -> None:
    with cluster.httpx() as client:
        begun = client.post("/faults", json={"fault": name, "seconds": _LONG, **arguments})
        assert begun.status_code == 201, begun.text
        assert begun.json()["promise"] == KINDS[name].promise
        assert client.delete("/faults").status_code == 200


def _from_python(cluster: Cluster, name: str, arguments: dict[str, Any]) -> None:
    assert cluster.disturb(name, seconds=_LONG, **arguments).promise == KINDS[name].promise
    cluster.calm()


@pytest.mark.parametrize("name", sample(list(KINDS), 8))
def test_a_fault_can_be_injected_and_cleared_through_each_interface(cluster: Cluster, name: str) -> None:
    devices = _devices(cluster)
    ways: tuple[Callable[[Cluster, str, dict[str, Any]], None], ...] = (_by_command, _over_http, _from_python)
    for way in ways:
        way(cluster, name, _ARGUMENTS.get(name, {}))
        blocking_until(lambda: _faults(cluster) == [] and cluster.list("nodes"))
    services = dra_kube.cluster.Cluster(cluster.data).record().services
    blocking_until(lambda: not any(_state(one.pid) == "T" for one in services.values()))
    # Drivers taint no device any more, and publish all devices.
    blocking_until(lambda: _devices(cluster) == devices)
    cluster.apply(_POD.replace("NAME", name))
    cluster.pod(name).wait_for("Running")
    cluster.delete(f"pod/{name}")


@pytest.mark.parametrize("name", sample(["checkpoint-corrupt", "checkpoint-lost", "xid"], 2))
def test_a_fault_ends_even_if_the_node_agent_is_killed_meanwhile(cluster: Cluster, name: str) -> None:
    devices = _devices(cluster)
    cluster.apply(_POD.replace("NAME", name))
    cluster.pod(name).wait_for("Running")
    cluster.disturb(name, seconds=_LONG, **_ARGUMENTS.get(name, {}))
    if name == "xid":
        blocking_until(lambda: _devices(cluster) != devices)
    before = _agent(cluster)
    cluster.disturb("kill", seconds=_LONG, service="node-agent")
    blocking_until(lambda: _agent(cluster) not in (None, before))
    cluster.calm()
    blocking_until(lambda: _devices(cluster) == devices)
    # The driver also knows the earlier claim, and releases its device.
    cluster.delete(f"pod/{name}")
    cluster.apply(_POD.replace("NAME", f"after-{name}"))
    cluster.pod(f"after-{name}").wait_for("Running")
    cluster.delete(f"pod/after-{name}")
    files = cluster.data / "nodes/node-0"
    # The end of a fault is recorded in the background.
    blocking_until(lambda: not list(files.glob("fault-*")))
    # The pod had no grace period: the API server forgets it before its node unprepares the claim.
    blocking_until(lambda: not list((files / "cdi").glob("*.yaml")))


def _agent(cluster: Cluster) -> int | None:
    """Return the PID of the node agent if it is ready, or None."""
    found = dra_kube.cluster.Cluster(cluster.data).record().services.get("node-agent")
    if found is None:
        return None
    try:
        return found.pid if httpx.get(f"{found.url}/readyz").is_success else None
    except httpx.HTTPError:
        return None


def _faults(cluster: Cluster) -> list[Any] | None:
    try:
        with cluster.httpx() as client:
            items: list[Any] = client.get("/faults").json()["items"]
    except httpx.HTTPError:
        return None
    return items


def _devices(cluster: Cluster) -> set[tuple[str, bool]]:
    """Return the published devices, and whether they are tainted."""
    with cluster.httpx() as client:
        try:
            slices = client.get("/apis/resource.k8s.io/v1/resourceslices").json()["items"]
        except httpx.HTTPError:
            return set()
    return {(d["name"], bool(d.get("taints"))) for one in slices for d in one["spec"]["devices"]}


def _state(pid: int) -> str:
    """Return the process state in Linux's notation: R, S, T and so on. Empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
