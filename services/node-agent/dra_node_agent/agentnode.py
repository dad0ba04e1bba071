"""One node of an agent: its files, its kubelet, which may stop and start again, and its drivers."""

import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dra_shared.api.resources import NODES
from dra_shared.client.errors import NotFound
from dra_shared.client.rest import Client
from dra_shared.faults.errors import FaultError
from dra_shared.log import logger

from dra_node_agent.faults.nodes import NodeClock
from dra_node_agent.faults.remains import Remains
from dra_node_agent.kubelet.dra.callfaults import CallFaults
from dra_node_agent.kubelet.kubelet import Kubelet
from dra_node_agent.kubelet.node import NodeReporter
from dra_node_agent.nodedrivers import NodeDrivers

CDI_FOLDER = "cdi"
_BOOT_ID = "boot-id"

_log = logger(__name__)


@dataclass(eq=False)
class Place:
    """The place of a node.

    Args:
        home: all of its files; ``root`` and ``cdi`` may be elsewhere.
        root: its kubelet's directory.
        subnet: the network of its pods.
    """

    name: str
    home: Path
    root: Path
    cdi: Path
    subnet: str


@dataclass(eq=False)
class AgentNode(Place):
    """See the module's docstring.

    Args:
        make: creates a new kubelet of the node.
        kubelets: all kubelets of the agent; a restart replaces this node's.
        feed: passes the known pods to a new kubelet.
        client: for the Node object.
    """

    calls: CallFaults
    clock: NodeClock
    make: "Callable[[AgentNode], Kubelet]"
    kubelets: list[Kubelet]
    feed: Callable[[Kubelet], None]
    client: Client
    kubelet: Kubelet | None = None
    drivers: NodeDrivers | None = field(default=None)
    remains: Remains = field(init=False)

    def __post_init__(self) -> None:
        self.remains = Remains(self.home, self.root)

    async def start(self) -> Kubelet:
        """Start the first kubelet. Raises DraError if its checkpoint is damaged."""
        if self.remains.restore_checkpoint():
            _log.info("the last agent ended during a fault: restoring the checkpoint", node=self.name)
        self.kubelet = self.make(self)
        self.kubelets.append(self.kubelet)
        await self.kubelet.start()
        return self.kubelet

    async def close(self) -> None:
        """Stop the kubelet if it runs."""
        if self.kubelet is not None:
            await self.kubelet.close()

    @property
    def reporter(self) -> NodeReporter:
        """The reporter of the current kubelet, or of the last one if none runs."""
        return self._place()[1].reporter

    @property
    def is_running(self) -> bool:
        return self.kubelet is not None

    def own_drivers(self) -> Sequence[str]:
        return self.drivers.names if self.drivers is not None else ()

    def registered_drivers(self) -> Sequence[str]:
        return self.kubelet.dra.connections.drivers() if self.kubelet is not None else ()

    @contextlib.asynccontextmanager
    async def stop_driver(self, name: str) -> AsyncIterator[None]:
        if self.drivers is None:
            yield
            return
        async with self.drivers.stop(name):
            yield

    async def stop_kubelet(self) -> None:
        kubelet, self.kubelet = self.kubelet, None
        if kubelet is not None:
            await kubelet.close()

    async def start_kubelet(self) -> None:
        if self.kubelet is not None:
            return
        kubelet = self.make(self)
        self.kubelets[self._place()[0]] = self.kubelet = kubelet
        await kubelet.start()
        self.feed(kubelet)

    async def mark_repaired(self) -> None:
        """Make drivers remove the taints of device faults, because the devices work again."""
        if self.drivers is not None:
            await self.drivers.mark_repaired()

    async def delete_node(self) -> None:
        with contextlib.suppress(NotFound):
            await self.client.delete(NODES, self.name)

    @property
    def boot_id(self) -> str:
        """The id of the machine's boot; empty before the first reboot."""
        try:
            return (self.home / _BOOT_ID).read_text()
        except FileNotFoundError:
            return ""

    async def power_off(self) -> str:
        """End all containers and remove the CDI files, as a reboot does. Return the next boot id.

        Raises:
            FaultError: the CDI directory is one of the host, with files of other programs.
        """
        if self.cdi != self.home / CDI_FOLDER:
            raise FaultError(
                f"node {self.name!r}: a node with --cdi-dir cannot reboot, as others may use {self.cdi}"
            )
        await self._place()[1].runtime.power_off()
        for path in self.cdi.iterdir():
            path.unlink()
        boot_id = str(uuid.uuid4())
        (self.home / _BOOT_ID).write_text(boot_id)
        return boot_id

    def _place(self) -> tuple[int, Kubelet]:
        return next((place, one) for place, one in enumerate(self.kubelets) if one.name == self.name)
