"""The daemons of compute domains: the program `compute-domain-daemon` in simulated containers."""

from collections.abc import Callable, Mapping

import httpx
from dra_driverkit.errors import DriverConfigError
from dra_shared.client.errors import ApiError

from dra_node_agent.drivers.base import DriverNode
from dra_node_agent.drivers.nvidia.computedomain.daemon import ComputeDomainDaemon
from dra_node_agent.runtime.shell.world import Process, Program


class ImexDaemons:
    """The daemons in one node's containers.

    Args: node: returns the node. Called only after its containers can run.
    """

    def __init__(self, node: Callable[[], DriverNode]) -> None:
        self._node = node
        self._running: dict[str, ComputeDomainDaemon] = {}

    def programs(self) -> Mapping[str, Program]:
        """Return `compute-domain-daemon`, and the program that its `check` uses to query the IMEX daemon."""
        return {"compute-domain-daemon": self._daemon, "nvidia-imex-ctl": self._control}

    async def _daemon(self, process: Process) -> int:
        if "check" in process.argv[1:]:
            return self._check(process)
        if "run" in process.argv[1:]:
            return await self._run(process)
        process.out("NAME:\n   compute-domain-daemon\n\nCOMMANDS:\n   run\n   check\n")
        return 0

    async def _run(self, process: Process) -> int:
        node, pod = self._node(), process.env.get("POD_UID", "")
        try:
            daemon = ComputeDomainDaemon(node.client, node.clock, process.env)
            self._running[pod] = daemon
            await daemon.run(process.shell.world.terminated)
        except (DriverConfigError, ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            process.err(f"Error: {error}\n")
            return 1
        finally:
            self._running.pop(pod, None)
        return 0

    def _check(self, process: Process) -> int:
        if not process.env.get("CLIQUE_ID"):
            process.out("check succeeded (noop, clique ID is empty)\n")
            return 0
        if self._serves(process):
            return 0
        process.err("Error: IMEX daemon check failed: error running nvidia-imex-ctl: exit status 1\n")
        return 1

    async def _control(self, process: Process) -> int:
        ready = self._serves(process)
        process.out("READY\n" if ready else "UNAVAILABLE\n")
        return 0 if ready else 1

    def _serves(self, process: Process) -> bool:
        daemon = self._running.get(process.env.get("POD_UID", ""))
        return daemon is not None and daemon.serving
