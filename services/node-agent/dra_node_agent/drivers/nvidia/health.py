"""Watches the GPUs' health through NVML events, and converts events to taints.

Mirrors cmd/gpu-kubelet-plugin/device_health.go.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pynvml
from dra_shared.api.resource import DeviceTaint
from dra_shared.clock import Clock
from dra_shared.log import logger

from dra_node_agent.drivers.nvidia import DRIVER_NAME
from dra_node_agent.drivers.nvidia.devices import Gpu, MigDevice
from dra_node_agent.drivers.nvidia.discovery import PerGpu
from dra_node_agent.drivers.nvidia.taints import XID
from dra_node_agent.nvml.library import NvmlLibrary

# Application errors, which do not affect the GPU itself (NVIDIA's XID catalogue).
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})

_WHOLE_GPU = 0xFFFFFFFF
_RETRY_SECONDS = 5.0

_log = logger(__name__)

_Place = tuple[str, int, int]


class HealthMonitor:
    """Converts NVML's events to taints on devices.

    Args:
        ignored_xids: XIDs that are only reported, in addition to :data:`APPLICATION_XIDS`.
        related: whether an event of a whole GPU affects its watched MIG devices, and an event of a MIG device its
            watched GPU. Otherwise such events affect no device.
    """

    def __init__(
        self, nvml: NvmlLibrary, clock: Clock, ignored_xids: Iterable[int] = (), *, related: bool = False
    ) -> None:
        self._related = related
        self._nvml = nvml
        self._clock = clock
        self._harmless = APPLICATION_XIDS | frozenset(ignored_xids)
        self._devices: dict[_Place, str] = {}
        self._unmonitored: list[str] = []
        self._events: Any = None
        self._reported_lost = False

    def reset_lost(self) -> None:
        """Report the next lost device again, because all devices are present."""
        self._reported_lost = False

    def watch(self, per_gpu: PerGpu) -> None:
        """Register for the events of these devices. :meth:`events` reports devices that cannot be watched.

        Raises:
            NVMLError: NVML cannot create an event set.
        """
        for devices in per_gpu.values():
            for name, device in devices.items():
                if isinstance(device, Gpu):
                    self._devices[device.uuid, _WHOLE_GPU, _WHOLE_GPU] = name
                elif isinstance(device, MigDevice) and device.live is not None:
                    live = device.live
                    self._devices[live.parent_uuid, live.gpu_instance, live.compute_instance] = name
        wanted = (
            pynvml.nvmlEventTypeXidCriticalError
            | pynvml.nvmlEventTypeDoubleBitEccError
            | pynvml.nvmlEventTypeSingleBitEccError
        )
        with self._nvml.active():
            self._events = pynvml.nvmlEventSetCreate()
            for uuid in sorted({place[0] for place in self._devices}):
                try:
                    gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                    supported = pynvml.nvmlDeviceGetSupportedEventTypes(gpu)
                    pynvml.nvmlDeviceRegisterEvents(gpu, wanted & supported, self._events)
                except pynvml.NVMLError as error:
                    _log.warning("cannot watch the health of a GPU", gpu=uuid, error=str(error))
                    self._unmonitored += [name for place, name in self._devices.items() if place[0] == uuid]

    def close(self) -> None:
        """Free the event set."""
        if self._events is not None:
            with self._nvml.active():
                pynvml.nvmlEventSetFree(self._events)
            self._events = None

    async def events(self) -> AsyncIterator[tuple[list[str], DeviceTaint]]:
        """Yield the affected devices and their new taint for each event."""
        if self._unmonitored:
            yield self._unmonitored, DeviceTaint(key=f"{DRIVER_NAME}/unmonitored", effect="None")
        self._reported_lost = False
        while True:
            try:
                event = await self._nvml.wait_event(self._events)
            except pynvml.NVMLError_Timeout:
                continue
            except pynvml.NVMLError_GpuIsLost:
                if not self._reported_lost:
                    yield self._lost_devices()
                self._reported_lost = True
                await self._clock.sleep(_RETRY_SECONDS)
                continue
            except pynvml.NVMLError as error:
                _log.warning("waiting for NVML events failed, trying again", error=str(error))
                await asyncio.sleep(0)
                await self._clock.sleep(_RETRY_SECONDS)
                continue
            if event.eventType != pynvml.nvmlEventTypeXidCriticalError:
                continue
            try:
                with self._nvml.active():
                    uuid = pynvml.nvmlDeviceGetUUID(event.device)
            except pynvml.NVMLError:
                yield self._lost_devices()
                continue
            place = (
                uuid.decode() if isinstance(uuid, bytes) else uuid,
                event.gpuInstanceId,
                event.computeInstanceId,
            )
            if names := self._affected_devices(place):
                yield names, self._xid(event.eventData)

    def _affected_devices(self, place: _Place) -> list[str]:
        """Return the watched devices that an event of that position affects."""
        if place in self._devices:
            return [self._devices[place]]
        if not self._related:
            return []
        uuid = place[0]
        if (whole := (uuid, _WHOLE_GPU, _WHOLE_GPU)) in self._devices:
            return [self._devices[whole]]
        of_gpu = sorted(name for known, name in self._devices.items() if known[0] == uuid)
        return of_gpu if place[1:] == whole[1:] else []

    def _lost_devices(self) -> tuple[list[str], DeviceTaint]:
        """Return all devices, because NVML does not report which GPU is lost."""
        return sorted(self._devices.values()), DeviceTaint(key=f"{DRIVER_NAME}/gpu-lost", effect="NoSchedule")

    def _xid(self, xid: int) -> DeviceTaint:
        effect = "None" if xid in self._harmless else "NoSchedule"
        return DeviceTaint(key=XID, value=str(xid), effect=effect)
