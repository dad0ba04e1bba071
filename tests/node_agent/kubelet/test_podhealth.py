"""The health of devices in the statuses of pods."""

from collections.abc import Sequence

import pytest
from dra_shared.api.container import ResourceStatus
from dra_shared.features import FeatureGates
from dra_shared.version import V1_36, V1_37, Version

from tests.support.kubelet.bench import SLEEPER, Bench, claim, pod
from tests.support.kubelet.fakedriver import FakeDriver
from tests.support.waiting import until


async def _start_pod(bench: Bench, driver: FakeDriver) -> None:
    """Wait until a pod with a device of the driver runs."""
    await driver.registered.get()
    bench.add_claim(claim("gpu", "pod"))
    resources = {"claims": [{"name": "gpu"}]}
    container = {"name": "main", "image": "x", "command": SLEEPER, "resources": resources}
    bench.create(pod("pod", container, resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
    await until(lambda: bench.phase() == "Running")


def _statuses(bench: Bench) -> Sequence[ResourceStatus]:
    found = bench.pod()
    assert found is not None
    return found.status.container_statuses[0].allocated_resources_status


def _health(bench: Bench) -> set[tuple[str, str, str]]:
    """Return claim, health and message of each device in the pod's status."""
    return {
        (entry.name, device.health, device.message)
        for entry in _statuses(bench)
        for device in entry.resources
    }


# Until 1.36, kubelets also call drivers that do not offer the health service.
@pytest.mark.parametrize(
    ("version", "offered"),
    [(V1_37, ["v1.DRAResourceHealth"]), (V1_37, ["v1alpha1.DRAResourceHealth"]), (V1_36, [])],
)
async def test_device_health_is_in_the_pods_status_until_the_driver_ends_its_reports(
    version: Version, offered: list[str]
) -> None:
    bench = Bench(features=FeatureGates(version))
    services = ["v1.DRAPlugin", *offered]
    async with FakeDriver(registry=bench.registry, cdi=bench.cdi, services=services) as driver, bench:
        await _start_pod(bench, driver)
        driver.reports.put_nowait([("pool", "gpu", 2, "too hot")])
        await until(lambda: _health(bench) == {("claim:gpu", "Unhealthy", "too hot")})
        driver.reports.put_nowait(None)
        await until(lambda: _health(bench) == {("claim:gpu", "Unknown", "")})


@pytest.mark.parametrize("enabled", [True, False])
async def test_the_pod_status_has_device_health_only_if_the_gate_is_enabled(enabled: bool) -> None:
    bench = Bench(features=FeatureGates(V1_37, ResourceHealthStatus=enabled))
    async with FakeDriver(registry=bench.registry, cdi=bench.cdi) as driver, bench:
        await _start_pod(bench, driver)
        assert bool(_statuses(bench)) is enabled


async def test_device_health_is_kept_in_the_pod_status_during_a_restart_of_the_driver() -> None:
    bench = Bench()
    services = ["v1.DRAPlugin", "v1.DRAResourceHealth"]
    async with bench:
        async with FakeDriver(registry=bench.registry, cdi=bench.cdi, services=services) as driver:
            await _start_pod(bench, driver)
            driver.reports.put_nowait([("pool", "gpu", 2, "too hot")])
            await until(lambda: _health(bench) == {("claim:gpu", "Unhealthy", "too hot")})
        connections = bench.kubelet.dra.connections
        await until(lambda: not connections.drivers())
        await bench.clock.advance(20)
        assert _health(bench) == {("claim:gpu", "Unhealthy", "too hot")}
        async with FakeDriver(registry=bench.registry, cdi=bench.cdi, services=services) as driver:
            await driver.registered.get()
            driver.reports.put_nowait([("pool", "gpu", 2, "still too hot")])
            await until(lambda: _health(bench) == {("claim:gpu", "Unhealthy", "still too hot")})
        await until(lambda: not connections.drivers())
        await until(lambda: _health(bench) == {("claim:gpu", "Unknown", "")}, clock=bench.clock)
