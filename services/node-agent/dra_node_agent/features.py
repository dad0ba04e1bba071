"""Keeps the labels of nodes with GPUs up to date, as GPU feature discovery does."""

from collections.abc import Callable, Sequence

import httpx
from dra_shared.api.resources import NODES
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.log import logger

from dra_node_agent.kubelet.node import NodeReporter

# gpu-feature-discovery's --sleep-interval, in seconds.
PERIOD = 60.0

Labels = dict[str, str]

_log = logger(__name__)


class FeatureDiscovery:
    """Maintains the labels that ``labels`` returns for a node, and removes outdated ones."""

    def __init__(self, labels: Callable[[str], Labels], client: Client, clock: Clock) -> None:
        self._labels = labels
        self._client = client
        self._clock = clock
        self._found: dict[str, Labels] = {}

    def find(self, node_name: str) -> Labels:
        """Return the labels that the node gets when it is registered."""
        found = self._found[node_name] = self._labels(node_name)
        return found

    async def run(self, reporters: Callable[[], Sequence[NodeReporter]]) -> None:
        """Check the labels every minute until cancelled."""
        while True:
            await self._clock.sleep(PERIOD)
            for reporter in reporters():
                await self.check(reporter)

    async def check(self, reporter: NodeReporter) -> None:
        """Update the labels of one node."""
        name = reporter.shape.name
        before = self._found.get(name, {})
        found = self.find(name)
        present = reporter.node.metadata.labels
        changes: dict[str, str | None] = {
            key: value for key, value in found.items() if present.get(key) != value
        }
        changes |= {key: None for key in before if key not in found and key in present}
        if not changes:
            return
        try:
            await self._client.patch(NODES, name, {"metadata": {"labels": changes}})
        except NotFound:
            # A node that does not exist yet gets the labels at its registration, whose failures are reported
            # elsewhere.
            return
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            _log.info("labels not written, will look again", node=name, error=str(error))
