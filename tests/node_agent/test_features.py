"""Labels of nodes with GPUs. Labelling a node that is not registered yet is not an error."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from dra_node_agent.features import FeatureDiscovery
from dra_node_agent.kubelet.node import NodeReporter
from dra_shared.api.meta import Status
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.rest import Client
from dra_shared.clock import SystemClock
from structlog.testing import capture_logs


class _Client:
    def __init__(self, error: ApiError) -> None:
        self.error = error

    async def patch(self, *_: Any) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (NotFound(Status(code=404)), []),
        (ApiError(Status(code=403)), ["labels not written, will look again"]),
    ],
)
async def test_labeling_a_node_before_it_is_registered_logs_no_error(
    error: ApiError, reported: list[str]
) -> None:
    """Otherwise the last line of the log hides the reason why the node is not registered."""
    discovery = FeatureDiscovery(lambda _: {"a": "b"}, cast(Client, _Client(error)), SystemClock())
    metadata = SimpleNamespace(labels={})
    reporter = SimpleNamespace(shape=SimpleNamespace(name="n"), node=SimpleNamespace(metadata=metadata))
    with capture_logs() as logs:
        await discovery.check(cast(NodeReporter, reporter))
    assert [log["event"] for log in logs] == reported
