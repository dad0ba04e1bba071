"""Drivers that are installed by charts: their pods start the simulated driver on their nodes."""

from pathlib import Path

import pytest
from dra_shared.api.resources import DAEMON_SETS, PODS, RESOURCE_SLICES

from tests.integration.lab import Lab, Setup, on

_CHARTS = Path(__file__).parent / "charts"
_NONE = Setup("none", ("none",))
_NVIDIA = Setup("nvidia", ("gpu.nvidia.com",))


async def _drivers(house: Lab) -> set[str]:
    return {slice_.spec.driver for slice_ in (await house.client.list(RESOURCE_SLICES)).items}


async def _all_run(house: Lab, namespace: str) -> str:
    """Wait until the DaemonSet's pod is ready. Return its name."""
    (name,) = [name for name in await house.wait_for_pods(namespace, 1) if "vectoradd" not in name]
    await house.wait_for_running(namespace, name)
    return name


@pytest.mark.slow
@on(_NONE)
async def test_pods_of_a_driver_chart_run_the_simulated_driver(house: Lab) -> None:
    await house.apply(_CHARTS / "example.yaml")
    plugin = await _all_run(house, "dra-example-driver")
    await house.log("dra-example-driver", plugin, "plugin", lambda text: "gpu.example.com runs" in text)
    assert await _drivers(house) == {"gpu.example.com"}

    await house.apply(_CHARTS / "nvidia.yaml")

    async def has_succeeded() -> bool:
        pod = (await house.pods("nvidia-dra-driver")).get("cuda-vectoradd")
        return pod is not None and pod.status.phase == "Succeeded"

    async def describe() -> str:
        return str(await house.pods("nvidia-dra-driver"))

    await house.until(has_succeeded, describe)
    assert "Test PASSED" in await house.log("nvidia-dra-driver", "cuda-vectoradd", "cuda-vectoradd")

    async def all_published() -> bool:
        return await _drivers(house) == {"compute-domain.nvidia.com", "gpu.example.com", "gpu.nvidia.com"}

    async def read_drivers() -> str:
        return str(await _drivers(house))

    # The pod only needed the slices of one driver.
    await house.until(all_published, read_drivers)
    await house.client.delete(PODS, "cuda-vectoradd", "nvidia-dra-driver")

    await house.client.delete(DAEMON_SETS, "driver-kubelet-plugin", "nvidia-dra-driver")
    await house.client.delete(DAEMON_SETS, "dra-example-driver-kubeletplugin", "dra-example-driver")

    async def is_stopped() -> bool:
        return not await house.pods("nvidia-dra-driver") and not await house.pods("dra-example-driver")

    await house.until(is_stopped, describe)


@pytest.mark.slow
@on(_NONE)
async def test_charts_of_other_vendors_start_their_simulated_drivers(house: Lab) -> None:
    await house.apply(_CHARTS / "vendors.yaml")
    expected = {"gpu.amd.com", "gpu.intel.com", "gaudi.intel.com", "qat.intel.com", "tpu.google.com"}
    expected |= {"dra.net", "dra.cpu", "sriovnetwork.k8snetworkplumbingwg.io"}

    async def all_published() -> bool:
        return await _drivers(house) >= expected

    async def read_drivers() -> str:
        return str(await _drivers(house))

    await house.until(all_published, read_drivers)
    slices = (await house.client.list(RESOURCE_SLICES)).items
    devices = {slice_.spec.driver: slice_.spec.devices for slice_ in slices}
    assert len(devices["tpu.google.com"]) == 4, "the chart's topology chooses the variant"
    assert devices["dra.cpu"][0].name == "cpudevsocket000", "the driver's configuration file counts"
    names = await house.wait_for_pods("vendors", 8)
    for name in names:
        await house.wait_for_running("vendors", name)
        await house.client.delete(DAEMON_SETS, name.rpartition("-")[0], "vendors")

    async def is_stopped() -> bool:
        return not await house.pods("vendors")

    await house.until(is_stopped, read_drivers)


@pytest.mark.slow
@on(_NVIDIA)
async def test_a_driver_that_already_runs_is_not_started_again(house: Lab) -> None:
    await house.apply(_CHARTS / "nvidia.yaml")
    names = await house.wait_for_pods("nvidia-dra-driver", 2)
    (plugin,) = [name for name in names if "vectoradd" not in name]
    await house.wait_for_running("nvidia-dra-driver", plugin)
    log = await house.log("nvidia-dra-driver", plugin, "gpus")
    assert log.startswith("dralab: gpu.nvidia.com runs on this node already, as --driver says")
