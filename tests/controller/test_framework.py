"""The framework that all controllers share."""

import pytest
from dra_controller.devicetainteviction import controller as devicetainteviction
from dra_controller.framework import QueueController
from dra_controller.garbagecollector import collector
from dra_controller.resourceclaim.controller import ResourceClaimController


@pytest.mark.parametrize(
    ("workers", "upstream"),
    [
        pytest.param(ResourceClaimController.workers, 50, id="resourceclaim-controller"),
        pytest.param(collector._WORKERS, 20, id="garbage-collector-controller"),
        pytest.param(devicetainteviction._WORKERS, 8, id="device-taint-eviction-controller"),
        pytest.param(QueueController.workers, 5, id="others"),
    ],
)
def test_the_number_of_workers_of_each_controller_is_upstreams_default(workers: int, upstream: int) -> None:
    assert workers == upstream
