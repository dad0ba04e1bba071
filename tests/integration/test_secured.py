"""A cluster whose ports all require a token, as ``dralab up`` starts it with a real container engine."""

import asyncio
import csv
import os
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import orjson
import pytest
from dra_kube.cluster import Cluster

from tests.integration.lab import dralab, lab
from tests.support.kubelet.channels import Answered, session

pytestmark = pytest.mark.slow

_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "target"},
    "spec": {
        "containers": [{"name": "main", "image": "busybox", "command": ["sh", "-c", "echo hi; sleep 999"]}]
    },
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("s")
    words = ("--no-anonymous-auth", "--authorization-mode", "RBAC")
    dralab(path, "up", "--detach", "--port", "0", "--nodes", "1", "--relaxed", *words)
    yield path
    dralab(path, "down")


async def test_every_port_rejects_requests_without_the_token(data: Path) -> None:
    record = Cluster(data).record()
    assert record.server.startswith("https://127.0.0.1:")
    authority = ssl.create_default_context(cafile=str(data / "auth" / "ca.crt"))
    async with httpx.AsyncClient(verify=authority, trust_env=False) as client:
        for path in ("/api/v1/pods", "/version", "/readyz"):
            assert (await client.get(record.server + path)).status_code == 401
        for service, path in (
            ("node-agent", "/pods"),
            ("node-agent", "/containerLogs/default/target/main"),
            ("scheduler", "/free"),
        ):
            url = record.services[service].url
            assert (await client.get(url + path)).status_code == 403
            assert (await client.get(f"{url}/readyz")).status_code == 200
    port = int(record.services["node-agent"].url.rpartition(":")[2])
    with pytest.raises(Answered) as refused:
        async with session(port, "/exec/default/target/main?command=ls&output=1"):
            pass
    assert refused.value.code == 403


@pytest.fixture
async def pod(data: Path) -> AsyncIterator[None]:
    async with lab(data) as house:
        made = await house.client.raw("POST", "/api/v1/namespaces/default/pods", content=orjson.dumps(_POD))
        assert made.status_code == 201
        await house.wait_for_running("default", "target")
        yield
        await house.client.raw(
            "DELETE", "/api/v1/namespaces/default/pods/target", params={"gracePeriodSeconds": "0"}
        )
        await house.wait_until_gone("default", "target")


@pytest.mark.usefixtures("pod")
async def test_all_commands_work_with_the_token(data: Path) -> None:
    async with lab(data) as house:
        assert await house.log("default", "target", "main") == "hi\n"
        listed = await house.client.raw("GET", "/api/v1/nodes/node-0/proxy/pods")
        assert [pod["metadata"]["name"] for pod in listed.json()["items"]] == ["target"]
    dralab(data, "status")
    dralab(data, "free")
    dralab(data, "explain", "pod/target")


@pytest.mark.usefixtures("pod")
async def test_kubectl_needs_only_the_kubeconfig(data: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the PATH")
    environment = {**os.environ, "KUBECONFIG": str(Cluster(data).kubeconfig), "HOME": str(data)}
    for command, output in (
        (("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"), "kubernetes-admin"),
        (("exec", "target", "--", "echo", "there"), "there\n"),
    ):
        result = await asyncio.to_thread(
            subprocess.run,
            ["kubectl", *command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.stdout == output, result.stderr


def test_no_token_is_visible_in_the_process_list(data: Path) -> None:
    with (data / "auth" / "tokens.csv").open() as file:
        tokens = [row[0] for row in csv.reader(file)]
    record = Cluster(data).record()
    # Forked services show the command line of another process. Those of `dralab up` name the folder.
    pids = [record.pid, *(service.pid for service in record.services.values())]
    listed = subprocess.run(
        ["cat", *(f"/proc/{pid}/cmdline" for pid in pids)], capture_output=True, check=True, env=os.environ
    ).stdout.decode()
    assert str(data) in listed
    assert not any(token in listed for token in tokens)
