"""``dralab.testing``, as other projects use it."""

import itertools
import unittest
from pathlib import Path
from typing import Any

import dra_kube.cluster
import pytest
from dra_lab.forkserver import ADDRESS
from dra_testing import processes
from dralab.testing import AsyncCluster, Cluster, Options, WaitTimeout

from tests.testing.manifests import POD

pytestmark = pytest.mark.system


def _devices(cluster: Cluster) -> list[str]:
    claims = cluster.list("resourceclaims")
    return [one["device"] for claim in claims for one in claim["status"]["allocation"]["devices"]["results"]]


@pytest.mark.dra_cluster(scope="module")
def test_a_pod_gets_a_device(dra_cluster: Cluster) -> None:
    dra_cluster.apply(POD)
    pod = dra_cluster.pod("p")
    assert "NVIDIA A100" in pod.logs()
    assert pod.wait_for("Running")["spec"]["nodeName"] == "node-0"
    (claim,) = pod.claims()
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert result["driver"] == "gpu.nvidia.com"


@pytest.mark.dra_cluster(scope="module")
def test_objects_may_be_given_in_a_list(dra_cluster: Cluster) -> None:
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("a", "b")]
    assert [one["metadata"]["name"] for one in dra_cluster.apply(spaces)] == ["a", "b"]
    dra_cluster.delete(spaces)
    assert not {"a", "b"} & {one["metadata"]["name"] for one in dra_cluster.list("namespaces")}


@pytest.mark.dra_cluster(scope="module")
def test_a_rollback_removes_all_objects_of_a_test(dra_cluster: Cluster) -> None:
    for _ in range(2):
        assert dra_cluster.list("pods") == dra_cluster.list("resourceclaims") == []
        dra_cluster.apply(POD)
        dra_cluster.pod("p").wait_for()
        dra_cluster.rollback()


@pytest.mark.dra_cluster(scope="module")
def test_a_rollback_undoes_changes_and_deletions(dra_cluster: Cluster) -> None:
    dra_cluster.apply(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0", "labels": {"zone": "a"}}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
    )
    before = dra_cluster.get("deviceclass/gpu.nvidia.com")["spec"]
    dra_cluster.delete("deviceclass/gpu.nvidia.com")
    kept = dra_cluster.snapshot()
    dra_cluster.delete("namespace/team")
    dra_cluster.rollback(kept)
    assert dra_cluster.get("namespace/team")["status"]["phase"] == "Active"
    dra_cluster.rollback()
    assert "zone" not in dra_cluster.get("node/node-0")["metadata"]["labels"]
    assert dra_cluster.get("deviceclass/gpu.nvidia.com")["spec"] == before
    assert "team" not in {one["metadata"]["name"] for one in dra_cluster.list("namespaces")}


@pytest.mark.dra_cluster(scope="module")
def test_a_deleted_pod_is_restored_even_if_its_device_was_reallocated(dra_cluster: Cluster) -> None:
    dra_cluster.apply(POD)
    dra_cluster.pod("p").wait_for()
    kept, before = dra_cluster.snapshot(), _devices(dra_cluster)
    dra_cluster.delete("pod/p")
    # The claim is deleted after its pod, and then its device is free.
    dra_cluster.until(lambda: not dra_cluster.list("resourceclaims"), what="no claim")
    dra_cluster.apply(POD.replace("{name: p}", "{name: q}"))
    dra_cluster.pod("q").wait_for()
    assert _devices(dra_cluster) == before
    dra_cluster.rollback(kept)
    dra_cluster.pod("p").wait_for()
    assert "NVIDIA A100" in dra_cluster.pod("p").logs()
    assert (_devices(dra_cluster), [one["metadata"]["name"] for one in dra_cluster.list("pods")]) == (
        before,
        ["p"],
    )


@pytest.mark.dra_cluster(scope="module")
def test_the_error_of_a_timeout_explains_the_state_of_the_object(dra_cluster: Cluster) -> None:
    selector = {"cel": {"expression": "device.attributes['gpu.nvidia.com'].productName == 'none'"}}
    dra_cluster.apply(POD)
    dra_cluster.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "picky"},
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "gpu",
                            "exactly": {"deviceClassName": "gpu.nvidia.com", "selectors": [selector]},
                        }
                    ]
                }
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "waits"},
            "spec": {
                "containers": [{"name": "c", "image": "any"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "picky"}],
            },
        },
    )
    dra_cluster.pod("waits").wait_for(lambda pod: pod["status"].get("conditions"))
    # The state is read once more if the time ends before the first answer.
    with pytest.raises(WaitTimeout, match=r"pod/waits is not ready after 0 s") as failed:
        dra_cluster.pod("waits").wait_for(timeout=0)
    assert "cannot allocate all claims" in str(failed.value)
    assert "node-0" in str(failed.value)
    with pytest.raises(WaitTimeout, match="pod/nowhere does not exist in namespace default"):
        dra_cluster.wait_for("pod/nowhere", timeout=0)


async def test_an_async_test_runs_the_cluster_on_its_own_loop(dra_cluster: AsyncCluster) -> None:
    assert isinstance(dra_cluster, AsyncCluster)
    await dra_cluster.apply(POD)
    assert "A100" in await dra_cluster.pod("p").logs()
    await dra_cluster.fault("node-0", 0, lost=True)
    assert dra_cluster.is_damaged

    async def fewer() -> bool:
        (piece,) = await dra_cluster.list("resourceslices")
        return len(piece["spec"]["devices"]) == 7 or any(
            device.get("taints") for device in piece["spec"]["devices"]
        )

    await dra_cluster.until(fewer)


@pytest.mark.dra_cluster(scope="module")
async def test_async_tests_can_share_a_cluster(dra_cluster: AsyncCluster) -> None:
    await dra_cluster.apply(POD)
    await dra_cluster.pod("p").wait_for()


@pytest.mark.dra_cluster(fake_clock=True, drivers=["gpu.example.com"], gates={"DRAConsumableCapacity": False})
async def test_time_of_a_fake_clock_passes_when_the_test_advances_it(dra_cluster: AsyncCluster) -> None:
    assert not dra_cluster.options.features.enabled("DRAConsumableCapacity")
    await dra_cluster.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "often"},
            "spec": {
                "schedule": "* * * * *",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {"containers": [{"name": "c", "image": "any"}], "restartPolicy": "Never"}
                        }
                    }
                },
            },
        }
    )
    assert await dra_cluster.list("jobs") == []
    await dra_cluster.clock.advance(61)
    job, *_ = await dra_cluster.until(lambda: dra_cluster.list("jobs"))
    assert job["metadata"]["name"].startswith("often-")


# The clients of other libraries leave closing to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.dra_cluster(scope="module")
def test_other_kubernetes_clients_connect_without_configuration(dra_cluster: Cluster) -> None:
    with dra_cluster.httpx() as client:
        assert client.get("/api/v1/nodes").json()["items"][0]["metadata"]["name"] == "node-0"
    kubernetes: Any = pytest.importorskip("kubernetes")
    with dra_cluster.kubernetes() as api:
        assert kubernetes.client.CoreV1Api(api).read_node("node-0").metadata.name == "node-0"
    lightkube = pytest.importorskip("lightkube.resources.core_v1")
    assert dra_cluster.lightkube().get(lightkube.Node, "node-0").metadata.name == "node-0"


# kr8s warns about every Kubernetes that is newer than itself, and cannot close its connections.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.dra_cluster(scope="module")
def test_kr8s_connects_to_the_cluster_without_configuration(dra_cluster: Cluster) -> None:
    kr8s: Any = pytest.importorskip("kr8s")
    api = dra_cluster.kr8s()
    assert [node.name for node in api.get("nodes")] == ["node-0"]
    container = {"name": "c", "image": "any", "command": ["sh", "-c", "echo hello; sleep infinity"]}
    spec = {"containers": [container]}
    pod = kr8s.objects.Pod(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "k"}, "spec": spec}, api=api
    )
    pod.create()
    pod.wait("condition=Ready")
    assert list(pod.logs()) == ["hello"]
    kr8s._async_utils.Portal().call(api._session.aclose)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "scope",
    [
        pytest.param("function", marks=pytest.mark.dra_cluster(scope="function")),
        pytest.param("module", marks=pytest.mark.dra_cluster(scope="module")),
    ],
)
async def test_kr8s_runs_on_the_event_loop_of_the_test(dra_cluster: AsyncCluster, scope: str) -> None:
    pytest.importorskip("kr8s")
    api = await dra_cluster.kr8s()
    assert [node.name async for node in api.get("nodes")] == ["node-0"]
    await api._session.aclose()


class TestWithUnittest(unittest.TestCase):
    """Clusters in ``unittest`` tests, which have no fixtures of pytest."""

    def test_a_cluster_can_be_used_as_a_context_manager_without_pytest(self) -> None:
        with Cluster(nodes=0) as cluster:
            assert cluster.list("nodes") == []
            assert cluster.kubeconfig.exists()
        assert not cluster.data.exists()


def test_a_fake_clock_requires_services_in_this_process() -> None:
    with pytest.raises(ValueError, match="processes have clocks of their own"):
        Options(processes=True, fake_clock=True)


def test_service_processes_are_forked_from_one_with_imported_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    monkeypatch.setattr(processes, "WARM", [])
    # The output is that of a single cluster.
    monkeypatch.setattr(processes, "_started", itertools.count(1))
    with Cluster(processes=True) as cluster:
        cluster.apply(POD)
        assert "NVIDIA A100" in cluster.pod("p").logs()
        services = dra_kube.cluster.Cluster(cluster.data).record().services.values()
        commands = [Path(f"/proc/{service.pid}/cmdline").read_bytes() for service in services]
        assert len(commands) == 4
        assert all(b"dra_lab.warm" in command for command in commands)
        # Only such clusters have faults of processes.
        stopped = cluster.disturb("stop", seconds=0.5, service="scheduler")
        assert stopped.promise == "running pods keep running; pending work continues when the service is back"
        assert "containers kept running" in stopped.check()
    assert not any(Path(f"/proc/{service.pid}").exists() for service in services)
    (warm,) = processes.WARM
    warm.close()


async def test_a_rollback_keeps_aggregated_roles() -> None:
    async with AsyncCluster(nodes=0) as cluster:

        async def roles() -> list[dict[str, Any]]:
            return [await cluster.get(f"clusterrole/{name}") for name in ("view", "edit", "admin")]

        async def is_aggregated() -> bool:
            view, edit, admin = [role.get("rules") or [] for role in await roles()]
            return bool(view) and all(rule in edit for rule in view) and all(rule in admin for rule in edit)

        await cluster.until(is_aggregated)
        before = await roles()
        await cluster.rollback()
        assert await roles() == before
