"""NVML's functions for MIG: modes, profiles, GPU instances and compute instances."""

import ctypes
from typing import Any

import pynvml

from dra_node_agent.nvml import arguments
from dra_node_agent.nvml import system as state
from dra_node_agent.nvml.handles import Handles
from dra_node_agent.nvml.model import COMPUTE_INSTANCE_SLOTS, GpuInstanceProfile
from dra_node_agent.nvml.profilename import profile_name
from dra_node_agent.nvml.system import GpuInstance, NvmlReturn, SimulatedGpu, compute_slices

_SUCCESS = 0


class MigFunctions(Handles):
    """The functions as methods, named as in nvml.h."""

    def _nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> None:
        gpu = self._gpu(handle)
        if not gpu.mig_capable:
            raise NvmlReturn(state.NOT_SUPPORTED)
        arguments.store(current, int(gpu.mig_enabled))
        arguments.store(pending, int(gpu.mig_pending))

    def _nvmlDeviceSetMigMode(self, handle: Any, mode: Any, activation: Any) -> None:
        gpu = self._gpu(handle)
        try:
            gpu.set_mig_mode(bool(arguments.integer(mode)))
        except NvmlReturn as refused:
            arguments.store(activation, refused.code)
            raise
        arguments.store(activation, _SUCCESS)
        self.system.notify_change()

    def _nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, out: Any) -> None:
        arguments.store(out, self._gpu(handle).model.max_mig_devices)

    def _nvmlDeviceIsMigDeviceHandle(self, handle: Any, out: Any) -> None:
        arguments.store(out, int(isinstance(self._thing(handle), tuple)))

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, out: Any) -> None:
        gpu = self._gpu(handle)
        gpu.check_mig()
        devices = list(gpu.mig_devices())
        if arguments.integer(index) >= gpu.model.max_mig_devices:
            raise NvmlReturn(state.INVALID_ARGUMENT)
        if arguments.integer(index) >= len(devices):
            raise NvmlReturn(state.NOT_FOUND)
        arguments.point(out, self._mig_address((gpu, *devices[arguments.integer(index)])))

    def _nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any, out: Any) -> None:
        arguments.point(out, self._gpu_address(self._mig(handle)[0]))

    def _nvmlDeviceGetGpuInstanceId(self, handle: Any, out: Any) -> None:
        arguments.store(out, self._mig(handle)[1].id)

    def _nvmlDeviceGetComputeInstanceId(self, handle: Any, out: Any) -> None:
        arguments.store(out, self._mig(handle)[2].id)

    def _nvmlDeviceGetAttributes_v2(self, handle: Any, out: Any) -> None:
        _, instance, compute = self._mig(handle)
        profile, info = instance.profile, out._obj
        info.multiprocessorCount = _multiprocessors(profile, compute.slices)
        info.sharedCopyEngineCount = profile.copy_engines
        info.sharedDecoderCount, info.sharedEncoderCount = profile.decoders, profile.encoders
        info.sharedJpegCount, info.sharedOfaCount = profile.jpeg_engines, profile.ofa_engines
        info.gpuInstanceSliceCount, info.computeInstanceSliceCount = profile.slices, compute.slices
        info.memorySizeMB = profile.memory_mib

    def _nvmlDeviceGetGpuInstanceProfileInfo(self, handle: Any, slot: Any, out: Any) -> None:
        gpu = self._gpu(handle)
        profile, info = gpu.profile_by_slot(arguments.integer(slot)), out._obj
        info.id, info.isP2pSupported, info.sliceCount = profile.id, 0, profile.slices
        info.instanceCount, info.multiprocessorCount = profile.instances, profile.multiprocessors
        info.copyEngineCount, info.decoderCount = profile.copy_engines, profile.decoders
        info.encoderCount, info.jpegCount = profile.encoders, profile.jpeg_engines
        info.ofaCount, info.memorySizeMB = profile.ofa_engines, profile.memory_mib

    def _nvmlDeviceGetGpuInstanceProfileInfoV(self, handle: Any, slot: Any, out: Any) -> None:
        self._nvmlDeviceGetGpuInstanceProfileInfo(handle, slot, out)
        gpu = self._gpu(handle)
        out._obj.name = f"MIG {profile_name(gpu, gpu.profile_by_slot(arguments.integer(slot)))}".encode()

    def _nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        self, handle: Any, profile_id: Any, placements: Any, count: Any
    ) -> None:
        profile = self._gpu(handle).profile_by_id(arguments.integer(profile_id))
        starts = profile.placements.starts
        room = arguments.fetch(count)
        arguments.store(count, len(starts))
        if placements is None:
            return
        if room < len(starts):
            raise NvmlReturn(state.INSUFFICIENT_SIZE)
        array = arguments.view(placements, pynvml.c_nvmlGpuInstancePlacement_t)
        for place, start in enumerate(starts):
            array[place].start, array[place].size = start, profile.placements.size

    def _nvmlDeviceGetGpuInstanceRemainingCapacity(self, handle: Any, profile_id: Any, out: Any) -> None:
        gpu = self._gpu(handle)
        gpu.check_mig()
        profile = gpu.profile_by_id(arguments.integer(profile_id))
        taken: set[int] = set()
        fit = 0
        for start in gpu.free_starts(profile):
            wanted = set(range(start, start + profile.placements.size))
            if taken.isdisjoint(wanted):
                taken |= wanted
                fit += 1
        same = sum(1 for i in gpu.instances.values() if i.profile is profile)
        arguments.store(out, min(fit, profile.instances - same))

    def _nvmlDeviceCreateGpuInstance(self, handle: Any, profile_id: Any, out: Any) -> None:
        gpu = self._gpu(handle)
        self._return_instance(gpu, gpu.create_instance(gpu.profile_by_id(arguments.integer(profile_id))), out)

    def _nvmlDeviceCreateGpuInstanceWithPlacement(
        self, handle: Any, profile_id: Any, placement: Any, out: Any
    ) -> None:
        gpu = self._gpu(handle)
        start = arguments.view(placement, pynvml.c_nvmlGpuInstancePlacement_t)[0].start
        self._return_instance(
            gpu, gpu.create_instance(gpu.profile_by_id(arguments.integer(profile_id)), start), out
        )

    def _return_instance(self, gpu: SimulatedGpu, instance: GpuInstance, out: Any) -> None:
        arguments.point(out, self._instance_address(gpu, instance))
        self.system.notify_change()

    def _nvmlGpuInstanceDestroy(self, handle: Any) -> None:
        gpu, instance = self._instance(handle)
        gpu.destroy_instance(instance.id)
        self._forget((gpu.uuid, id(instance)))
        self.system.notify_change()

    def _nvmlDeviceGetGpuInstances(self, handle: Any, profile_id: Any, out: Any, count: Any) -> None:
        gpu = self._gpu(handle)
        gpu.check_mig()
        profile = gpu.profile_by_id(arguments.integer(profile_id))
        same = [i for _, i in sorted(gpu.instances.items()) if i.profile is profile]
        array = arguments.view(out, ctypes.c_void_p)
        for place, instance in enumerate(same):
            array[place] = self._instance_address(gpu, instance)
        arguments.store(count, len(same))

    def _nvmlDeviceGetGpuInstanceById(self, handle: Any, instance_id: Any, out: Any) -> None:
        gpu = self._gpu(handle)
        arguments.point(out, self._instance_address(gpu, gpu.instance(arguments.integer(instance_id))))

    def _nvmlGpuInstanceGetInfo(self, handle: Any, out: Any) -> None:
        gpu, instance = self._instance(handle)
        info = out._obj
        info.device = ctypes.cast(ctypes.c_void_p(self._gpu_address(gpu)), pynvml.c_nvmlDevice_t)
        info.id, info.profileId = instance.id, instance.profile.id
        info.placement.start, info.placement.size = instance.start, instance.profile.placements.size

    def _nvmlGpuInstanceGetComputeInstanceProfileInfo(
        self, handle: Any, slot: Any, engine: Any, out: Any
    ) -> None:
        _, instance = self._instance(handle)
        profile = instance.profile
        slices = next((n for n, s in COMPUTE_INSTANCE_SLOTS.items() if s == arguments.integer(slot)), 0)
        if slices not in compute_slices(profile) or arguments.integer(engine) != 0:
            raise NvmlReturn(state.NOT_SUPPORTED)
        info = out._obj
        info.id, info.sliceCount = arguments.integer(slot), slices
        info.instanceCount = profile.slices // slices
        info.multiprocessorCount = _multiprocessors(profile, slices)
        info.sharedCopyEngineCount, info.sharedDecoderCount = profile.copy_engines, profile.decoders
        info.sharedEncoderCount, info.sharedJpegCount = profile.encoders, profile.jpeg_engines
        info.sharedOfaCount = profile.ofa_engines

    _nvmlGpuInstanceGetComputeInstanceProfileInfoV = _nvmlGpuInstanceGetComputeInstanceProfileInfo

    def _nvmlGpuInstanceCreateComputeInstance(self, handle: Any, profile_id: Any, out: Any) -> None:
        gpu, instance = self._instance(handle)
        compute = gpu.create_compute_instance(instance, arguments.integer(profile_id))
        arguments.point(out, self._compute_address((gpu, instance, compute)))
        self.system.notify_change()

    def _nvmlGpuInstanceGetComputeInstanceById(self, handle: Any, compute_id: Any, out: Any) -> None:
        gpu, instance = self._instance(handle)
        compute = instance.compute_instances.get(arguments.integer(compute_id))
        if compute is None:
            raise NvmlReturn(state.NOT_FOUND)
        arguments.point(out, self._compute_address((gpu, instance, compute)))

    def _nvmlComputeInstanceGetInfo_v2(self, handle: Any, out: Any) -> None:
        gpu, instance, compute = mig = self._compute(handle)
        info = out._obj
        info.device = ctypes.cast(ctypes.c_void_p(self._mig_address(mig)), pynvml.c_nvmlDevice_t)
        info.gpuInstance = ctypes.cast(
            ctypes.c_void_p(self._instance_address(gpu, instance)), pynvml.c_nvmlGpuInstance_t
        )
        info.id, info.profileId = compute.id, compute.profile_id
        info.placement.start, info.placement.size = compute.start, compute.slices

    def _nvmlComputeInstanceDestroy(self, handle: Any) -> None:
        gpu, instance, compute = self._compute(handle)
        gpu.destroy_compute_instance(instance, compute.id)
        self._forget(("ci", compute.uuid))
        self.system.notify_change()


def _multiprocessors(profile: GpuInstanceProfile, slices: int) -> int:
    if slices == profile.slices:
        return profile.multiprocessors
    return profile.multiprocessors // profile.slices * slices
