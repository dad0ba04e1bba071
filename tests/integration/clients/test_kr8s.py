"""kr8s, which discovers the served kinds."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import kr8s
import pytest
from dra_shared.version import DEFAULT
from kr8s.asyncio.objects import ConfigMap, Deployment, Pod, new_class

from tests.integration.clients.objects import deployment, gpu_pod, template
from tests.support.waiting import until

# kr8s warns about every Kubernetes that is newer than itself.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]

Template = new_class(
    kind="ResourceClaimTemplate", version="resource.k8s.io/v1", namespaced=True, asyncio=True
)


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[Any]:
    made = await kr8s.asyncio.api(kubeconfig=str(kubeconfig))
    yield made
    # kr8s has no way to close its connections, and its cache keeps them for the next test that uses kr8s.
    await made._session.aclose()


@pytest.fixture
def name() -> str:
    return f"k-{uuid.uuid4().hex[:8]}"


async def test_version_kinds_and_objects_are_listed(api: Any) -> None:
    assert (await api.version())["minor"] == str(DEFAULT.minor)
    assert "ResourceSlice" in {item["kind"] for item in await api.api_resources()}
    assert {node.name async for node in api.get("nodes")} == {"node-0", "node-1"}
    assert [item.raw["spec"]["driver"] async for item in api.get("resourceslices")] == ["gpu.nvidia.com"] * 2


async def test_objects_are_created_patched_and_deleted(api: Any, name: str) -> None:
    made = await ConfigMap(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}, api=api
    )
    await made.create()
    await made.patch({"data": {"b": "2"}})
    await made.label({"x": "y"})
    await made.refresh()
    assert (dict(made.raw["data"]), dict(made.labels)) == ({"a": "1", "b": "2"}, {"x": "y"})
    assert [item.name async for item in api.get("configmaps", label_selector={"x": "y"})] == [name]
    await made.delete()
    assert not await made.exists()


async def test_a_pod_runs_and_prints_a_log(api: Any, name: str) -> None:
    shape = await Template(template(name), api=api)
    await shape.create()
    pod = await Pod(gpu_pod(name, name, "echo hello from kr8s; sleep 1000"), api=api)
    await pod.create()
    await pod.wait("condition=Ready", timeout=60)
    assert await pod.ready()

    async def read_log() -> list[str]:
        return [line async for line in pod.logs(tail_lines=1)]

    assert await until(read_log) == ["hello from kr8s"]
    await pod.delete()
    await pod.wait("delete", timeout=60)


async def test_a_deployment_is_scaled(api: Any, name: str) -> None:
    made = await Deployment(deployment(name, 1), api=api)
    await made.create()
    await made.wait("condition=Available", timeout=60)
    await made.scale(3)
    await made.wait("jsonpath='{.status.readyReplicas}'=3", timeout=60)
    assert len(await made.pods()) == 3
    await made.delete()
