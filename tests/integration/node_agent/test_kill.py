"""The node agent's process is killed repeatedly while pods start and end. Nothing is lost, and nothing is left."""

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_node_agent.kubelet.dra.checkpoint import STATE_FILE, decode
from dra_shared.api.resources import PODS
from dra_shared.client.rest import Client

from tests.integration.node_agent.cluster import bound_pod, slices, wait_until_gone, wait_until_running
from tests.support.waiting import until

# Seconds after a pod was bound: before, within and after its claim is prepared.
_MOMENTS = (0.0, 0.01, 0.02, 0.04, 0.08)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as name:
        yield Path(name)


@asynccontextmanager
async def _agent(url: str, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run an agent process with one node, and kill it at the end."""
    with (folder / "agent.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "dra_node_agent.main", "--server", url, "--data", str(folder), "--nodes", "1"),
            stderr=log,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


@pytest.mark.slow
async def test_killed_agents_leave_nothing_behind(folder: Path) -> None:
    home = folder / "nodes" / "node-0"
    config = Config(port=0, data=folder, relaxed=True, disabled_plugins=frozenset({"ServiceAccount"}))
    async with ApiServer(config) as server, Client(server.url) as client:
        for number, moment in enumerate(_MOMENTS):
            async with _agent(server.url, folder):
                await until(lambda: slices(client))
                await bound_pod(client, f"pod-{number}", "node-0", f"gpu-{4 + number % 4}")
                if number >= 1:
                    # One pod is deleted while its successor is created.
                    await client.delete(PODS, f"pod-{number - 1}", "default")
                await asyncio.sleep(moment)
        last = len(_MOMENTS) - 1
        async with _agent(server.url, folder):
            await wait_until_running(client, f"pod-{last}")
            for number in range(last):
                await wait_until_gone(client, f"pod-{number}")
            claims = {state.claim_name for state in decode((home / "kubelet" / STATE_FILE).read_bytes())}
            assert claims == {f"pod-{last}"}
            assert len(list((home / "cdi").iterdir())) == 1
            await client.delete(PODS, f"pod-{last}", "default")
            await wait_until_gone(client, f"pod-{last}")
            assert list((home / "cdi").iterdir()) == []
            assert decode((home / "kubelet" / STATE_FILE).read_bytes()) == ()
            checkpoint = (home / "kubelet" / "plugins" / "gpu.nvidia.com" / "checkpoint.json").read_text()
            assert "PrepareStarted" not in checkpoint
            assert "PrepareCompleted" not in checkpoint
