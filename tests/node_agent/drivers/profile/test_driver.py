"""A profile's driver as a whole, against a stand-in API server."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from dra_node_agent.drivers.base import DriverNode, DriverOptions
from dra_node_agent.drivers.catalog import ensure_device_classes, find_driver
from dra_node_agent.drivers.errors import DriverConfigError, PrepareError
from dra_node_agent.drivers.profile import load_profile
from dra_node_agent.drivers.profile.binding import BindingConditionSetter
from dra_node_agent.drivers.profile.driver import ProfileDriver
from dra_node_agent.drivers.profile.model import BindingConditions
from dra_shared.clock import FakeClock, SystemClock

from tests.node_agent.drivers.claims import claim, ref, result
from tests.node_agent.drivers.fakeapi import FakeApi
from tests.support.waiting import until

_GPU = "gpu.example.com"


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nd") as directory:
        yield Path(directory)


@pytest.fixture
def api() -> FakeApi:
    fake = FakeApi()
    fake.put("nodes", {"metadata": {"name": "node-0"}})
    return fake


async def test_publishes_prepares_and_tidies_up(root: Path, api: FakeApi) -> None:
    options = DriverOptions(driver_root=root / "driver", machines=root / "machines")
    driver = find_driver(_GPU, options)
    async with api.client() as client:
        await ensure_device_classes(client, [driver])
        node = DriverNode("node-0", root / "kubelet", root / "cdi", client, SystemClock())
        async with driver.on_node(node) as running:
            await running.server.published()
            (slice_,) = api.of("resourceslices")
            assert len(slice_["spec"]["devices"]) == 9
            wanted = claim("uid-1", "gpu-3", driver=_GPU)
            (device,) = await running.prepare(wanted)
            assert device.device == "gpu-3"
            with pytest.raises(
                PrepareError, match="error preparing devices for claim uid-2: prepare failed:"
            ):
                await running.prepare(claim("uid-2", "gpu-77", driver=_GPU))
            await running.unprepare(ref(wanted))
    assert api.of("deviceclasses")[0]["spec"]["extendedResourceName"] == "example.com/gpu"


async def test_reports_what_it_is_told_to_report(root: Path, api: FakeApi) -> None:
    profile = msgspec.structs.replace(load_profile(_GPU), device_status=("model", "uuid"))
    wanted = claim("uid-1", "gpu-3", driver=_GPU)
    plain: dict[str, Any] = msgspec.to_builtins(wanted)
    stored = api.put("resourceclaims", plain)
    async with api.client() as client:
        driver = ProfileDriver(profile, "node-0", root / "k", root / "cdi", client, SystemClock())
        async with driver:
            # The claim changed since the kubelet read it: the second attempt works with the newer one.
            await driver.prepare(wanted)
    (status,) = api.of("resourceclaims")[0]["status"]["devices"]
    assert stored["metadata"]["name"] == "claim-uid-1"
    assert (status["device"], status["data"]["model"]) == ("gpu-3", {"string": "LATEST-GPU-MODEL"})


async def test_a_damaged_checkpoint_stops_it(root: Path, api: FakeApi) -> None:
    plugin = root / "k" / "plugins" / _GPU
    plugin.mkdir(parents=True)
    (plugin / "checkpoint.json").write_text("{")
    async with api.client() as client:
        driver = ProfileDriver(load_profile(_GPU), "node-0", root / "k", root / "cdi", client, SystemClock())
        with pytest.raises(DriverConfigError, match="checkpoint is corrupted"):
            await driver.__aenter__()


class TestBindingConditions:
    @pytest.mark.parametrize(
        ("rules", "condition", "reason"),
        [
            (BindingConditions(), "Ready4Binding", "Ready"),
            (BindingConditions(after_seconds=30), "Ready4Binding", "Ready"),
            (BindingConditions(fail=True), "Broken", "Failed"),
        ],
    )
    async def test_come_true(
        self, api: FakeApi, rules: BindingConditions, condition: str, reason: str
    ) -> None:
        allocated = result(
            "gpu-0",
            driver=_GPU,
            binding_conditions=("Ready4Binding",),
            binding_failure_conditions=("Broken",),
        )
        elsewhere = result("gpu-1", "r1", _GPU, "node-1", binding_conditions=("Ready4Binding",))
        api.put("resourceclaims", msgspec.to_builtins(claim("uid-1", allocated, elsewhere)))
        clock = FakeClock()
        async with api.client() as client:
            setter = BindingConditionSetter(client, clock, _GPU, "node-0", rules)
            running = asyncio.create_task(setter.run())
            if rules.after_seconds:
                await until(lambda: clock.sleepers > 0)
                assert "devices" not in api.of("resourceclaims")[0]["status"]
                await clock.advance(rules.after_seconds)
            await until(lambda: "devices" in api.of("resourceclaims")[0]["status"])
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        (status,) = api.of("resourceclaims")[0]["status"]["devices"]
        assert (status["device"], status["pool"]) == ("gpu-0", "node-0")
        (made,) = status["conditions"]
        assert (made["type"], made["status"], made["reason"]) == (condition, "True", reason)
