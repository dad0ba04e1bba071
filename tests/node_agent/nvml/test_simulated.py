"""The simulated library, called only through the real pynvml."""

import asyncio
import ctypes
from collections.abc import Iterator
from typing import Any

import pynvml
import pytest
from dra_node_agent.nvml.library import SimulatedNvml, has_gpus
from dra_node_agent.nvml.node import open_system
from dra_node_agent.nvml.system import Process, SimulatedSystem, caps_instance, caps_minor


@pytest.fixture
def system() -> SimulatedSystem:
    return open_system("1xA100-SXM4-40GB:mig,1xH100:whole,1xT4", "node-0")


@pytest.fixture
def nvml(system: SimulatedSystem) -> Iterator[SimulatedNvml]:
    library = SimulatedNvml(system)
    with library.active():
        pynvml.nvmlInit()
        yield library


def _gpu(index: int) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def _create(gpu: Any, profile_id: int, start: int, size: int, slot: int) -> tuple[Any, Any]:
    place = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
    instance = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile_id, ctypes.byref(place))
    return instance, pynvml.nvmlGpuInstanceCreateComputeInstance(instance, slot)


@pytest.mark.usefixtures("nvml")
class TestGpus:
    def test_queries_return_the_values_of_the_model(self) -> None:
        assert pynvml.nvmlSystemGetDriverVersion() == "580.95.05"
        assert pynvml.nvmlSystemGetCudaDriverVersion() == 13000
        assert pynvml.nvmlDeviceGetCount() == 3
        gpu = _gpu(0)
        assert pynvml.nvmlDeviceGetName(gpu) == "NVIDIA A100-SXM4-40GB"
        assert pynvml.nvmlDeviceGetUUID(gpu).startswith("GPU-")
        assert pynvml.nvmlDeviceGetMinorNumber(gpu) == pynvml.nvmlDeviceGetIndex(gpu) == 0
        assert pynvml.nvmlDeviceGetCudaComputeCapability(gpu) == (8, 0)
        assert pynvml.nvmlDeviceGetArchitecture(gpu) == pynvml.NVML_DEVICE_ARCH_AMPERE
        assert pynvml.nvmlDeviceGetBrand(gpu) == pynvml.NVML_BRAND_NVIDIA
        assert pynvml.nvmlDeviceGetMemoryInfo(gpu).total == 40960 * 1024**2
        assert pynvml.nvmlDeviceGetMemoryInfo(gpu, pynvml.nvmlMemory_v2).free == 40960 * 1024**2
        assert pynvml.nvmlDeviceGetPciInfo(gpu).busId == "00000000:07:00.0"
        assert pynvml.nvmlDeviceGetPciInfo(gpu).pciDeviceId == 0x20B010DE
        assert pynvml.nvmlDeviceGetAddressingMode(_gpu(1)) == pynvml.NVML_DEVICE_ADDRESSING_MODE_HMM
        assert pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) == 400_000

    def test_a_gpu_is_found_by_uuid_and_by_address(self) -> None:
        gpu = _gpu(1)
        assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(gpu))) == 1
        address = pynvml.nvmlDeviceGetPciInfo(gpu).busId
        assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByPciBusId(address)) == 1

    def test_invalid_queries_fail_as_in_nvml(self) -> None:
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            _gpu(3)
        with pytest.raises(pynvml.NVMLError_NotFound):
            pynvml.nvmlDeviceGetHandleByUUID("GPU-none")
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetMigMode(_gpu(2))
        with pytest.raises(pynvml.NVMLError_FunctionNotFound):
            pynvml.nvmlDeviceGetBoardPartNumber(_gpu(0))
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetAddressingMode(_gpu(0))

    def test_load_changes_memory_utilization_temperature_and_power(self, system: SimulatedSystem) -> None:
        gpu = _gpu(1)
        idle = pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU)
        watts = pynvml.nvmlDeviceGetPowerUsage(gpu)
        system.gpus[1].processes.append(Process(4711, "python", 2048))
        system.gpus[1].utilization = 80
        assert pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu == 80
        assert pynvml.nvmlDeviceGetMemoryInfo(gpu).used == 2048 * 1024**2
        assert pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU) > idle
        assert pynvml.nvmlDeviceGetPowerUsage(gpu) > watts
        (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)
        assert (process.pid, process.usedGpuMemory) == (4711, 2048 * 1024**2)

    def test_the_compute_mode_is_stored(self) -> None:
        gpu = _gpu(1)
        pynvml.nvmlDeviceSetComputeMode(gpu, pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
        assert pynvml.nvmlDeviceGetComputeMode(gpu) == pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlDeviceSetComputeMode(gpu, 9)


@pytest.mark.usefixtures("nvml")
class TestMig:
    def test_mig_profiles_have_the_placements_of_the_gpu_model(self) -> None:
        gpu = _gpu(0)
        info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, pynvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE)
        assert (info.id, info.sliceCount, info.multiprocessorCount) == (9, 3, 42)
        assert (info.memorySizeMB, info.name) == (19968, "MIG 3g.20gb")
        count = ctypes.c_uint()
        pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, info.id, None, ctypes.byref(count))
        places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
        pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, info.id, places, ctypes.byref(count))
        assert [(place.start, place.size) for place in places] == [(0, 4), (4, 4)]
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, pynvml.NVML_GPU_INSTANCE_PROFILE_8_SLICE)

    def test_instances_are_created_found_and_destroyed(self) -> None:
        gpu = _gpu(0)
        instance, compute = _create(gpu, 9, 4, 4, 2)
        info = pynvml.nvmlComputeInstanceGetInfo(compute)
        uuid = pynvml.nvmlDeviceGetUUID(info.device)
        assert uuid.startswith("MIG-")
        mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
        assert pynvml.nvmlDeviceGetUUID(mig) == uuid
        assert pynvml.nvmlDeviceGetName(mig) == "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
        assert pynvml.nvmlDeviceGetMemoryInfo(mig).total == 19968 * 1024**2
        assert pynvml.nvmlDeviceGetAttributes(mig).multiprocessorCount == 42
        assert pynvml.nvmlDeviceGetUUID(
            pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)
        ) == pynvml.nvmlDeviceGetUUID(gpu)
        assert pynvml.nvmlGpuInstanceGetInfo(instance).placement.start == 4
        with pytest.raises(pynvml.NVMLError_InUse):
            pynvml.nvmlGpuInstanceDestroy(instance)
        pynvml.nvmlComputeInstanceDestroy(compute)
        pynvml.nvmlGpuInstanceDestroy(instance)
        with pytest.raises(pynvml.NVMLError_NotFound):
            pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
        with pytest.raises(pynvml.NVMLError):
            pynvml.nvmlDeviceGetUUID(mig)

    def test_a_recreated_device_has_a_new_uuid(self) -> None:
        gpu = _gpu(0)
        seen = set()
        for _ in range(3):
            instance, compute = _create(gpu, 19, 0, 1, 0)
            seen.add(pynvml.nvmlDeviceGetUUID(pynvml.nvmlComputeInstanceGetInfo(compute).device))
            pynvml.nvmlComputeInstanceDestroy(compute)
            pynvml.nvmlGpuInstanceDestroy(instance)
        assert len(seen) == 3

    def test_an_instance_that_does_not_fit_is_rejected(self) -> None:
        gpu = _gpu(0)
        _create(gpu, 9, 4, 4, 2)
        with pytest.raises(pynvml.NVMLError_InsufficientResources):
            _create(gpu, 14, 4, 2, 1)
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            _create(gpu, 14, 1, 2, 1)
        assert pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 14) == 2
        assert pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 0) == 0

    def test_a_device_with_a_process_is_not_destroyed(self, system: SimulatedSystem) -> None:
        gpu = _gpu(0)
        _, compute = _create(gpu, 19, 0, 1, 0)
        info = pynvml.nvmlComputeInstanceGetInfo(compute)
        mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
        instance_id = pynvml.nvmlDeviceGetGpuInstanceId(mig)
        system.gpus[0].processes.append(Process(1, "train", 100, instance_id, info.id))
        assert pynvml.nvmlDeviceGetMemoryInfo(mig).used == 100 * 1024**2
        with pytest.raises(pynvml.NVMLError_InUse):
            pynvml.nvmlComputeInstanceDestroy(compute)

    def test_mig_mode_changes_at_once_on_hopper_and_after_a_reset_on_ampere(
        self, system: SimulatedSystem
    ) -> None:
        hopper, ampere = _gpu(1), _gpu(0)
        pynvml.nvmlDeviceSetMigMode(hopper, pynvml.NVML_DEVICE_MIG_ENABLE)
        assert pynvml.nvmlDeviceGetMigMode(hopper) == [1, 1]
        pynvml.nvmlDeviceSetMigMode(ampere, pynvml.NVML_DEVICE_MIG_DISABLE)
        assert pynvml.nvmlDeviceGetMigMode(ampere) == [1, 0]
        system.gpus[0].reset()
        assert pynvml.nvmlDeviceGetMigMode(ampere) == [0, 0]
        with pytest.raises(pynvml.NVMLError_NotSupported):
            _create(ampere, 19, 0, 1, 0)

    def test_mig_mode_does_not_change_while_a_mig_device_exists(self) -> None:
        _create(_gpu(0), 19, 0, 1, 0)
        with pytest.raises(pynvml.NVMLError_InUse):
            pynvml.nvmlDeviceSetMigMode(_gpu(0), pynvml.NVML_DEVICE_MIG_DISABLE)


class TestEvents:
    async def test_an_xid_is_delivered_to_registered_event_sets(
        self, nvml: SimulatedNvml, system: SimulatedSystem
    ) -> None:
        events = pynvml.nvmlEventSetCreate()
        pynvml.nvmlDeviceRegisterEvents(_gpu(1), pynvml.nvmlEventTypeXidCriticalError, events)
        with pytest.raises(pynvml.NVMLError_Timeout):
            pynvml.nvmlEventSetWait_v2(events, 0)
        waiting = asyncio.create_task(nvml.wait_event(events))
        await asyncio.sleep(0)
        system.inject_xid(0, 31)
        system.inject_ecc(1, uncorrected=1)
        system.inject_xid(1, 79)
        event = await waiting
        assert (event.eventData, event.gpuInstanceId) == (79, 0xFFFFFFFF)
        assert pynvml.nvmlDeviceGetIndex(event.device) == 1
        errors = pynvml.nvmlDeviceGetTotalEccErrors(
            _gpu(1), pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        )
        assert errors == 1
        pynvml.nvmlEventSetFree(events)

    def test_queries_of_a_lost_gpu_fail(self, nvml: SimulatedNvml, system: SimulatedSystem) -> None:
        events = pynvml.nvmlEventSetCreate()
        gpu = _gpu(1)
        system.lose(1)
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlDeviceGetUUID(gpu)
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlEventSetWait_v2(events, 1000)


class TestRouter:
    def test_each_simulated_node_of_a_process_has_only_its_own_gpus(self, nvml: SimulatedNvml) -> None:
        other = SimulatedNvml(open_system("1xL4", "node-1"))
        handle = _gpu(0)
        with other.active():
            assert pynvml.nvmlDeviceGetCount() == 1
            assert pynvml.nvmlDeviceGetName(_gpu(0)) == "NVIDIA L4"
            with pytest.raises(pynvml.NVMLError_InvalidArgument):
                pynvml.nvmlDeviceGetName(handle)
        assert pynvml.nvmlDeviceGetCount() == 3

    async def test_each_asyncio_task_keeps_the_simulated_node_that_it_selected(self) -> None:
        async def count(gpus: str) -> int:
            library = SimulatedNvml(open_system(gpus, "n"))
            with library.active():
                await asyncio.sleep(0)
                return int(pynvml.nvmlDeviceGetCount())

        assert await asyncio.gather(*map(count, ("3xT4", "5xL4", "7xA30"))) == [3, 5, 7]


def test_capability_minors_are_those_of_the_kernel_driver() -> None:
    assert [caps_minor(0, 0), caps_minor(0, 0, 0), caps_minor(0, 0, 2)] == [3, 4, 6]
    assert [caps_minor(3, 3, 3), caps_minor(6, 11, 5), caps_minor(6, 11, 7)] == [439, 918, 920]
    assert caps_instance(918) == (6, 11, 5)
    assert caps_instance(3) == (0, 0, None)
    assert caps_instance(1) is None


@pytest.mark.gpu
@pytest.mark.skipif(not has_gpus(), reason="no NVIDIA GPU on this machine")
def test_calls_go_to_the_real_nvml_library_if_no_simulated_node_is_selected() -> None:
    assert pynvml.nvmlDeviceGetCount() > 0
