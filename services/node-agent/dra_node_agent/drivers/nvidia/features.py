"""The labels of GPU feature discovery, node feature discovery and the GPU operator for a node with GPUs.

Names and values are those of gpu-feature-discovery (internal/lm of NVIDIA's k8s-device-plugin), with the MIG
strategy ``mixed``, which is valid for every MIG layout, and without sharing.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from dra_node_agent.drivers.nvidia.devices import Gpu, MigDevice
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary

_GPU = "nvidia.com/gpu"
_PCI = "feature.node.kubernetes.io/pci-"
_VENDOR = "10de"
_MODES = {0x0300: "graphics", 0x0302: "compute"}
_FAMILIES = {
    1: "tesla",
    2: "fermi",
    3: "kepler",
    5: "maxwell",
    6: "pascal",
    9: "hopper",
    10: "blackwell",
    12: "blackwell",
    13: "rubin",
}
_STRANGE = re.compile(r"[^A-Za-z0-9-_. ]")
# A valid label value. Node feature discovery drops other values.
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

Labels = dict[str, str]


def node_labels(library: DeviceLibrary, started: datetime) -> Labels:
    """Return the node's labels, or none if it has no GPU. ``started`` is the start of discovery.

    Raises:
        DiscoveryError: NVML failed.
    """
    gpus = library.gpus()
    if not gpus:
        return {}
    classes = {library.host.pci_class(gpu.pci_bus_id) for gpu in gpus}
    labels = {
        f"{_GPU}.present": "true",
        f"{_PCI}{_VENDOR}.present": "true",
        **{f"{_PCI}{known:04x}_{_VENDOR}.present": "true" for known in classes if known in _MODES},
        "nvidia.com/gfd.timestamp": str(int(started.timestamp())),
        "nvidia.com/mig.capable": _flag(any(gpu.mig_capable for gpu in gpus)),
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/mps.capable": "false",
        "nvidia.com/vgpu.present": "false",
        f"{_GPU}.machine": _sanitise(library.host.machine_type()),
        f"{_GPU}.mode": _MODES.get(next(iter(classes)), "unknown") if len(classes) == 1 else "unknown",
        **_versions(gpus[0]),
        **_gpus(gpus),
    }
    if clique := library.clique():
        labels[f"{_GPU}.clique"] = clique
    migs = [mig for gpu in gpus if gpu.mig_enabled for mig in library.mig_devices(gpu)]
    for profile, count in Counter(mig.profile_name for mig in migs).items():
        labels |= _mig(next(mig for mig in migs if mig.profile_name == profile), count)
    return {name: value for name, value in labels.items() if _VALUE.fullmatch(value)}


def _versions(gpu: Gpu) -> Labels:
    major, minor, revision, *_ = [*gpu.driver_version.split("."), "", ""]
    cuda_major, _, cuda_minor = gpu.cuda_driver_version.partition(".")
    return {
        "nvidia.com/cuda.driver.major": major,
        "nvidia.com/cuda.driver.minor": minor,
        "nvidia.com/cuda.driver.rev": revision,
        "nvidia.com/cuda.runtime.major": cuda_major,
        "nvidia.com/cuda.runtime.minor": cuda_minor,
        "nvidia.com/cuda.driver-version.major": major,
        "nvidia.com/cuda.driver-version.minor": minor,
        "nvidia.com/cuda.driver-version.revision": revision,
        "nvidia.com/cuda.driver-version.full": gpu.driver_version,
        "nvidia.com/cuda.runtime-version.major": cuda_major,
        "nvidia.com/cuda.runtime-version.minor": cuda_minor,
        "nvidia.com/cuda.runtime-version.full": gpu.cuda_driver_version,
    }


def _gpus(gpus: Sequence[Gpu]) -> Labels:
    """Return the labels of the GPUs.

    With several models, the labels of the last whole GPU count, because all models use the same label names.
    """
    ranked = sorted(gpus, key=lambda gpu: not gpu.mig_enabled)
    shown = ranked[-1]
    count = sum(gpu.product_name == shown.product_name for gpu in gpus)
    major, _, minor = shown.cuda_compute_capability.partition(".")
    labels: Mapping[str, object] = {
        "product": _sanitise(shown.product_name),
        "count": count,
        "replicas": 0 if shown.mig_enabled else 1,
        "sharing-strategy": "none",
        "family": _family(int(major), int(minor)),
        "compute.major": major,
        "compute.minor": minor,
    }
    memory = {"memory": shown.memory_bytes // (1 << 20)} if shown.memory_bytes else {}
    return {f"{_GPU}.{name}": str(value) for name, value in {**labels, **memory}.items()}


def _mig(mig: MigDevice, count: int) -> Labels:
    profile, name = mig.profile, mig.profile_name.replace("+", ".")
    labels: Mapping[str, object] = {
        "product": f"{_sanitise(mig.parent.product_name)}-MIG-{name}",
        "count": count,
        "replicas": 1,
        "sharing-strategy": "none",
        "memory": profile.memory_mib,
        "multiprocessors": profile.multiprocessors,
        "slices.gi": profile.slices,
        "slices.ci": profile.slices,
        "engines.copy": profile.copy_engines,
        "engines.decoder": profile.decoders,
        "engines.encoder": profile.encoders,
        "engines.jpeg": profile.jpeg_engines,
        "engines.ofa": profile.ofa_engines,
    }
    return {f"nvidia.com/mig-{name}.{key}": str(value) for key, value in labels.items()}


def _family(major: int, minor: int) -> str:
    if major == 7:
        return "volta" if minor < 5 else "turing"
    if major == 8:
        return "ampere" if minor < 9 else "ada-lovelace"
    return _FAMILIES.get(major, "undefined")


def _sanitise(text: str) -> str:
    return "-".join(_STRANGE.sub("", text).split())


def _flag(value: bool) -> str:
    return "true" if value else "false"
