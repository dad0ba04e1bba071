"""A driver in a container, started with ``docker run IMAGE`` or ``podman run IMAGE``.

The suite adds the options that a driver's pod has: the directory of sockets and CDI files, mounted at the same path,
the host's network, and the environment variables that charts set. Signals go to the container through the tool, and
the tool's own process ends with the container.
"""

import asyncio
import contextlib
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from dra_conformance.driverprocess import Ended, ProcessDriver, Usage, usage_of

TOOLS = frozenset({"docker", "podman", "nerdctl"})
_PATIENCE = 30.0


def is_container(command: Sequence[str]) -> bool:
    """True if the command starts a container."""
    return len(command) > 2 and Path(command[0]).name in TOOLS and command[1] == "run"


class ContainerDriver(ProcessDriver):
    """A driver in a container: ``TOOL run [OPTIONS] IMAGE [ARGUMENTS]``, in the foreground.

    Args:
        shared: the directory that driver and suite both see.

    Raises:
        UserError: the command has an unknown placeholder.
    """

    def __init__(
        self,
        command: Sequence[str],
        values: Mapping[str, str],
        environment: Mapping[str, str],
        log: Path,
        shared: Path,
    ) -> None:
        self._names: dict[str, str] = {}
        self._pod = dict(environment)
        self._shared = shared
        super().__init__(command, values, {}, log)

    def _words(self, instance: str) -> list[str]:
        """Return the command with the container's options. The user's own options follow and take precedence."""
        tool, run, *rest = super()._words(instance)
        environment = {**self._pod, **({"POD_UID": instance} if self.instances else {})}
        name = self._names[instance] = f"dralab-conformance-{uuid.uuid4().hex[:12]}"
        own = ["--rm", "--name", name, "--network", "host", "--volume", f"{self._shared}:{self._shared}"]
        for key, value in environment.items():
            own += ["--env", f"{key}={value}"]
        return [tool, run, *own, *rest]

    async def stop(self, within: float, instance: str = "0") -> Ended:
        """Send SIGTERM to the container's program, as the kubelet does, and wait."""
        process = self._running.pop(instance)
        await self._dismiss(instance)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._ask("kill", "--signal", "TERM", self._names[instance])
        code: int | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                code = await process.wait()
        if code is None:
            await self._remove(process, instance)
        return Ended(code, loop.time() - began)

    async def kill(self, instance: str = "0") -> None:
        """Kill the container with SIGKILL. Killing the tool alone would leave the container running."""
        process = self._running.pop(instance, None)
        await self._dismiss(instance)
        if process is not None:
            await self._remove(process, instance)

    async def _remove(self, process: asyncio.subprocess.Process, instance: str) -> None:
        await self._ask("rm", "--force", self._names[instance])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await process.wait()
                return
        process.kill()
        await process.wait()

    async def _ask(self, *words: str) -> None:
        """Run a command of the tool and ignore its exit code, because the container may be gone already."""
        quiet = asyncio.subprocess.DEVNULL
        asked = await asyncio.create_subprocess_exec(
            self._command[0], *words, stdin=quiet, stdout=quiet, stderr=quiet
        )
        await asked.wait()

    def usage(self) -> Usage | None:
        """Return the resource usage of the container's processes, or None if this user cannot see the processes."""
        process = self._running.get("0")
        if process is None or process.returncode is not None:
            return None
        words = [self._command[0], "inspect", "--format", "{{.State.Pid}}", self._names["0"]]
        shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
        return usage_of(int(shown)) if shown.isdigit() and shown != "0" else None
