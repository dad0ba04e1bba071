"""Programs that a test starts while its cluster runs print nothing of gRPC."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sampling import sample

pytestmark = pytest.mark.system

_PROGRAM = """
import asyncio, os, subprocess, sys
import dra_testing.{module}
from grpc import aio

async def main():
    server = aio.server()
    server.add_insecure_port(f"unix:{{sys.argv[1]}}")
    await server.start()
    async with aio.insecure_channel(f"unix:{{sys.argv[1]}}") as channel:
        await channel.channel_ready()
        for _ in range(10):
            await asyncio.sleep(0.01)
            # A real fork, as uvloop's: subprocess uses vfork otherwise.
            subprocess.run(["true"], check=True, preexec_fn=lambda: None)
    await server.stop(None)

asyncio.run(main())
assert "GRPC_ENABLE_FORK_SUPPORT" not in os.environ
"""


@pytest.mark.parametrize("module", sample(["blocking", "cluster"], 1))
def test_child_processes_of_a_grpc_program_print_nothing(module: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", _PROGRAM.format(module=module), str(tmp_path / "s")]
    result = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    # gRPC may report that the server ended before the connection, with the socket's path. That line has no
    # "fork" in it.
    assert (result.returncode, "fork" in result.stderr) == (0, False), result.stderr
