"""The layer under pynvml that selects the NVML for a call.

pynvml keeps one library in a module global and caches its functions. A router is installed there, once for
each process. A call goes to the library of the node for which :meth:`NvmlLibrary.active` was entered (a
context variable, so that tasks and threads of several nodes are separate), or to the machine's own
libnvidia-ml.
"""

import asyncio
import contextlib
import contextvars
import ctypes
import subprocess
from collections.abc import Iterator
from typing import Any, Protocol

import pynvml
from dra_driverkit.flags import Flag

from dra_node_agent.nvml.simulated import SimulatedLibrary
from dra_node_agent.nvml.system import SimulatedSystem

_REAL_NAMES = ("libnvidia-ml.so.1", "libnvidia-ml.so")
_WAIT_MS = 5000
_SMI = "nvidia-smi"
_SMI_SECONDS = 10

_current: contextvars.ContextVar["SimulatedLibrary | None"] = contextvars.ContextVar("nvml", default=None)


class NvmlLibrary(Protocol):
    """One node's NVML."""

    def active(self) -> contextlib.AbstractContextManager[None]:
        """Make pynvml's functions use this node's GPUs inside the context."""
        ...

    def boot_id(self) -> str:
        """Return the identity of the machine's current boot."""
        ...

    def set_time_slice(self, uuid: str, interval: int) -> None:
        """Set the scheduler's time slice (0 default, 1 short, 2 medium, 3 long), for which NVML has no function.

        Raises: NVMLError: there is no such GPU, or the library does not support it.
        """
        ...

    async def wait_event(self, event_set: Any) -> Any:
        """Return the next event of an NVML event set.

        Raises NVMLError; after a timeout error the caller should retry.
        """
        ...


class _Router:
    """Replaces pynvml's ``nvmlLib``: its functions select their library when they are called."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        real = getattr(self._real, name, None) if self._real is not None else None
        simulated = hasattr(SimulatedLibrary, f"_{name}")
        if real is None and not simulated:
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            library = _current.get()
            if library is None:
                return int(real(*arguments)) if real is not None else int(pynvml.NVML_ERROR_UNINITIALIZED)
            if not simulated:
                return int(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
            return library.call(name, arguments)

        return call


def install() -> None:
    """Install the router under pynvml once, and again only if other code loaded a library in the meantime."""
    if isinstance(pynvml.nvmlLib, _Router):
        return
    pynvml.nvmlLib = _Router(_load_real())
    pynvml._nvmlGetFunctionPointer_cache.clear()


def _load_real() -> Any:
    for name in _REAL_NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


class SimulatedNvml:
    """The NVML of a simulated node."""

    def __init__(self, system: SimulatedSystem) -> None:
        install()
        self.system = system
        self._library = SimulatedLibrary(system)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        token = _current.set(self._library)
        try:
            yield
        finally:
            _current.reset(token)

    def boot_id(self) -> str:
        return self.system.boot_id

    def set_time_slice(self, uuid: str, interval: int) -> None:
        for gpu in self.system.visible_gpus():
            if gpu.uuid == uuid:
                if gpu.time_slice != interval:
                    gpu.time_slice = interval
                    self.system.notify_change()
                return
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    async def wait_event(self, event_set: Any) -> Any:
        """Wait on the event loop instead of in a thread, because one agent may have hundreds of nodes."""
        loop = asyncio.get_running_loop()
        arrived = Flag()

        def wake() -> None:
            loop.call_soon_threadsafe(arrived.set)

        stop = self.system.on_event(wake)
        try:
            with self.active():
                try:
                    return pynvml.nvmlEventSetWait_v2(event_set, 0)
                except pynvml.NVMLError_Timeout:
                    pass
            await arrived.wait()
            with self.active():
                return pynvml.nvmlEventSetWait_v2(event_set, 0)
        finally:
            stop()


class RealNvml:
    """The machine's own NVML.

    Raises:
        NVMLError: the machine has no NVIDIA driver.
    """

    def __init__(self) -> None:
        install()
        with self.active():
            pynvml._nvmlCheckReturn(
                pynvml._nvmlGetFunctionPointer("nvmlInitWithFlags")(pynvml.NVML_INIT_FLAG_NO_GPUS)
            )

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        token = _current.set(None)
        try:
            yield
        finally:
            _current.reset(token)

    def boot_id(self) -> str:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()

    def set_time_slice(self, uuid: str, interval: int) -> None:
        """Run ``nvidia-smi compute-policy``, the only way to do this.

        A failure to set the default (0) is ignored.
        """
        command = [_SMI, "compute-policy", "-i", uuid, "--set-timeslice", str(interval)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_SMI_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            failed = True
        else:
            failed = done.returncode != 0
        if failed and interval:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    async def wait_event(self, event_set: Any) -> Any:
        def wait() -> Any:
            with self.active():
                return pynvml.nvmlEventSetWait_v2(event_set, _WAIT_MS)

        return await asyncio.to_thread(wait)


def has_gpus() -> bool:
    """True if this machine has an NVIDIA driver with at least one GPU."""
    try:
        with RealNvml().active():
            return bool(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return False
