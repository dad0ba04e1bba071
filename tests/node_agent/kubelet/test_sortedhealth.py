"""Test the order of devices in the status of containers."""

from typing import Any

import msgspec
import pytest
from dra_node_agent.kubelet.dra.podhealth import PodHealth
from dra_shared.api.pod import Pod


class _Nothing:
    def get(self, *_: Any) -> None:
        return None


@pytest.mark.parametrize("is_sorted", [True, False])
def test_health_of_devices_is_sorted_since_1_38(is_sorted: bool) -> None:
    def entry(name: str, *devices: str) -> dict[str, Any]:
        return {"name": name, "resources": [{"resourceID": device} for device in devices]}

    status = {"name": "c", "allocatedResourcesStatus": [entry("z", "2", "1"), entry("a", "3")]}
    claims = {"claims": [{"name": "g"}]}
    spec = {"containers": [{"name": "c", "resources": claims}]}
    pod = msgspec.convert(
        {"metadata": {"name": "p"}, "spec": spec, "status": {"containerStatuses": [status]}}, Pod
    )
    health: Any = _Nothing()
    shown = PodHealth(health, health, messages=False, is_sorted=is_sorted, on_change=None)
    (container,) = shown.add_health(pod, pod.status).container_statuses
    found = [
        (one.name, [device.resource_id for device in one.resources])
        for one in container.allocated_resources_status
    ]
    sent = [("z", ["2", "1"]), ("a", ["3"])]
    assert found == ([("a", ["3"]), ("z", ["1", "2"])] if is_sorted else sent)
