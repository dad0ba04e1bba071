"""The names of MIG profiles."""

from dra_node_agent.nvml.model import GpuInstanceProfile
from dra_node_agent.nvml.system import SimulatedGpu

_MIB = 1024 * 1024


def profile_name(gpu: SimulatedGpu, profile: GpuInstanceProfile) -> str:
    """Return the name that nvidia-smi gives the profile, like ``1g.5gb+me``."""
    return mig_profile_name(
        profile.slot, profile.slices, profile.slices, profile.memory_mib, gpu.memory_bytes
    )


def mig_profile_name(slot: int, slices: int, compute: int, memory_mib: int, total_bytes: int) -> str:
    """Return the name of a MIG profile, from the numbers that NVML gives.

    The gigabytes are not the instance's memory: they are the GPU's, rounded up, times the instance's share in
    eighths, rounded up too (go-nvlib's ``NewMigProfile``).

    Args:
        slot: the NVML_GPU_INSTANCE_PROFILE_* index.
        slices: compute slices of the GPU instance.
        compute: compute slices of the compute instance.
    """
    eighths = -(-memory_mib * _MIB * 8 // total_bytes)
    gigabytes = int(eighths * -(-total_bytes // 1024**3) / 8 + 0.5)
    suffix = {0x7: "+me", 0x8: "+me", 0xF: "+me.all", 0x10: "+me.all", 0xD: "-me", 0xE: "-me"}.get(slot, "")
    if slot in (0xA, 0xB, 0xC, 0x11):
        suffix = "+gfx"
    prefix = "" if compute == slices else f"{compute}c."
    return f"{prefix}{slices}g.{gigabytes}gb{suffix}"
