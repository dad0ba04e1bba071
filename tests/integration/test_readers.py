"""``dralab up --apiservers 2``: what clients of both servers see while each of them is killed."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from dra_kube.cluster import Cluster
from dra_lab import status
from dra_shared.api.core import ConfigMap
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resources import CONFIG_MAPS
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import Client

from tests.integration.lab import dralab, lab
from tests.support.waiting import until

pytestmark = pytest.mark.slow

_NAMESPACE = "default"
_POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec:
  containers: [{name: main, image: busybox, command: [sh, -c, sleep 999]}]
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("r")
    dralab(path, "up", "--detach", "--port", "0", "--nodes", "1", "--apiservers", "2", "--tls")
    yield path
    dralab(path, "down")


def _kill(data: Path, name: str) -> int:
    pid = Cluster(data).record().services[name].pid
    os.kill(pid, signal.SIGKILL)
    return pid


async def _back(data: Path, name: str, before: int) -> None:
    async def restarted() -> bool:
        service = Cluster(data).record().services[name]
        if service.pid == before:
            return False
        with contextlib.suppress(httpx.HTTPError):
            async with Cluster(data).client("test", service.url) as client:
                return (await client.raw("GET", "/readyz")).status_code == 200
        return False

    await until(restarted)


async def _write(client: Client, acknowledged: dict[str, str], stop: asyncio.Event) -> None:
    """Create one object after another; note each that was answered, with its revision."""
    number = 0
    while not stop.is_set():
        number += 1
        made = ConfigMap(metadata=ObjectMeta(name=f"m{number:05}"))
        try:
            created = await client.create(CONFIG_MAPS, made, _NAMESPACE)
        except (ApiError, httpx.HTTPError):
            # It may have been written.
            await asyncio.sleep(0.01)
        else:
            acknowledged[created.metadata.name] = created.metadata.resource_version


async def _more(acknowledged: dict[str, str]) -> None:
    """Wait until some more are answered."""
    enough = len(acknowledged) + 5
    await until(lambda: len(acknowledged) > enough)


async def _watch(client: Client, seen: list[tuple[str, str]], version: str) -> None:
    """Note every event, across whatever cuts the watch."""
    while True:
        with contextlib.suppress(ApiError, httpx.HTTPError):
            async for event in client.watch(
                CONFIG_MAPS, _NAMESPACE, resource_version=version, bookmarks=False
            ):
                version = event.object.metadata.resource_version
                seen.append((event.object.metadata.name, version))
        await asyncio.sleep(0.01)


async def test_each_server_may_be_killed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(data)
    await status.show(data)
    assert "\napiserver-2 ready " in capsys.readouterr().out
    reader = cluster.record().services["apiserver-2"].url
    acknowledged: dict[str, str] = {}
    seen: list[tuple[str, str]] = []
    stop = asyncio.Event()
    async with cluster.client("test", reader) as client:
        listed = await client.list(CONFIG_MAPS, _NAMESPACE)
        watching = asyncio.create_task(_watch(client, seen, listed.resource_version))
        writing = asyncio.create_task(_write(client, acknowledged, stop))
        for name in ("apiserver", "apiserver-2", "apiserver"):
            await _more(acknowledged)
            await _back(data, name, _kill(data, name))
        await _more(acknowledged)
        stop.set()
        await writing
        newest = max(acknowledged.values(), key=int)
        await until(lambda: seen and int(seen[-1][1]) >= int(newest))
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    versions = [int(version) for _, version in seen]
    assert versions == sorted(set(versions))
    assert acknowledged.items() <= dict(seen).items()


async def test_pods_run_with_services_that_read_from_a_reader(data: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(_POD)
    async with lab(data) as house:
        await house.apply(manifest)
        await house.running(_NAMESPACE, "p")
