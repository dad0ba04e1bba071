"""NVML's functions for NVLink fabrics."""

from typing import Any

from dra_node_agent.nvml import system as state
from dra_node_agent.nvml.handles import Handles
from dra_node_agent.nvml.system import NvmlReturn

_SUCCESS = 0
_COMPLETED = 3
_HEALTHY = 1
# A healthy NVML_GPU_FABRIC_HEALTH_MASK_*: full bandwidth, no route recovery, routes healthy, no access
# time-outs, no wrong configuration, a partition assigned.
HEALTH_MASK = 0x2 | 0x2 << 2 | 0x2 << 4 | 0x2 << 6 | 0x1 << 8 | 0x1 << 12


class FabricFunctions(Handles):
    """The functions as methods, named as in nvml.h."""

    def _nvmlDeviceGetGpuFabricInfo(self, handle: Any, out: Any) -> None:
        member = self._gpu(handle).fabric
        if member is None:
            raise NvmlReturn(state.NOT_SUPPORTED)
        info = out._obj if hasattr(out, "_obj") else out
        info.clusterUuid[:] = tuple(member.cluster.bytes)
        info.status, info.cliqueId, info.state = _SUCCESS, member.clique, _COMPLETED

    def _nvmlDeviceGetGpuFabricInfoV(self, handle: Any, out: Any) -> None:
        self._nvmlDeviceGetGpuFabricInfo(handle, out)
        info = out._obj if hasattr(out, "_obj") else out
        info.healthMask = HEALTH_MASK
        if hasattr(info, "healthSummary"):
            info.healthSummary = _HEALTHY
