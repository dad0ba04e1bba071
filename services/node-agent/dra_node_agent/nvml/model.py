"""GPU models as data. A YAML file for each model says what the simulated NVML reports about it."""

import functools
import re
from pathlib import Path
from typing import dataclass_transform

import msgspec
from dra_shared.boundedfiles import read_file
from dra_shared.yamltext import YamlError, load

_DATA = Path(__file__).parent / "models"
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:00\.0")

#: The numbers of NVML's GPU instance profiles (NVML_GPU_INSTANCE_PROFILE_*) by name.
GPU_INSTANCE_SLOTS = {
    "1_SLICE": 0x0,
    "2_SLICE": 0x1,
    "3_SLICE": 0x2,
    "4_SLICE": 0x3,
    "7_SLICE": 0x4,
    "8_SLICE": 0x5,
    "6_SLICE": 0x6,
    "1_SLICE_REV1": 0x7,
    "2_SLICE_REV1": 0x8,
    "1_SLICE_REV2": 0x9,
    "1_SLICE_GFX": 0xA,
    "2_SLICE_GFX": 0xB,
    "4_SLICE_GFX": 0xC,
    "1_SLICE_NO_ME": 0xD,
    "2_SLICE_NO_ME": 0xE,
    "1_SLICE_ALL_ME": 0xF,
    "2_SLICE_ALL_ME": 0x10,
}

#: The numbers of NVML's compute instance profiles by how many slices the profile has.
COMPUTE_INSTANCE_SLOTS = {1: 0x0, 2: 0x1, 3: 0x2, 4: 0x3, 7: 0x4, 8: 0x5, 6: 0x6}


class UnknownModelError(ValueError):
    """No data file describes the GPU model; the message lists the models that are known."""


class ModelError(ValueError):
    """The data file of a GPU model is not valid."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _Data(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class Placements(_Data, kw_only=True):
    """The memory slices at which a GPU instance may start, and how many memory slices it takes from there."""

    starts: tuple[int, ...]
    size: int


class GpuInstanceProfile(_Data, kw_only=True):
    """A GPU instance profile, as ``nvidia-smi mig -lgip`` and ``-lgipp`` list it."""

    profile: str
    id: int
    slices: int
    instances: int
    memory_mib: int = msgspec.field(name="memoryMiB")
    multiprocessors: int
    copy_engines: int
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0
    placements: Placements

    @property
    def slot(self) -> int:
        """The number by which callers ask NVML for the profile."""
        return GPU_INSTANCE_SLOTS[self.profile]


class Fabric(_Data, kw_only=True):
    """The NVLink switches that connect the GPUs.

    Args:
        gpus: the number of connected GPUs in a rack; None if the switches only connect the GPUs of one machine.
    """

    gpus: int | None = None


class Slot(_Data, kw_only=True):
    """The place of a GPU in its machine: PCI address in the form of sysfs, ``0008:06:00.0``, and NUMA node."""

    address: str
    numa_node: int = msgspec.field(name="numaNode")


class GpuModel(_Data, kw_only=True):
    """One model of GPU.

    Args:
        fabric: None if the GPUs are not behind NVLink switches, or NVML does not report them.
        slots: the positions of the first GPUs of a node, for machines that are all built the same way.
    """

    name: str
    aliases: tuple[str, ...] = ()
    architecture: str
    brand: str
    cuda_compute_capability: str
    memory_mib: int = msgspec.field(name="memoryMiB")
    pci_device_id: int = msgspec.field(name="pciDeviceID")
    power_limit_watts: int
    addressing_mode: str | None = None
    ecc: bool = True
    fabric: Fabric | None = None
    slots: tuple[Slot, ...] = ()
    max_mig_devices: int = 0
    mig_profiles: tuple[GpuInstanceProfile, ...] = ()


def load_model_file(path: Path) -> GpuModel:
    """Read the data file of a GPU model.

    Raises:
        ModelError: the file cannot be read, or describes an impossible GPU.
    """
    try:
        model = msgspec.convert(load(read_file(path)).value, GpuModel)
    except OSError as error:
        raise ModelError(f"cannot read GPU model {path}: {error.strerror}") from error
    except (YamlError, msgspec.ValidationError) as error:
        raise ModelError(f"GPU model {path}: {error}") from error
    unknown = [p.profile for p in model.mig_profiles if p.profile not in GPU_INSTANCE_SLOTS]
    if model.fabric is not None and model.fabric.gpus is not None and model.fabric.gpus < 1:
        raise ModelError(f"GPU model {path}: a fabric of {model.fabric.gpus} GPUs")
    strange = [slot.address for slot in model.slots if not _ADDRESS.fullmatch(slot.address)]
    if strange:
        raise ModelError(f"GPU model {path}: not a PCI address: {', '.join(strange)}")
    if unknown:
        raise ModelError(
            f"GPU model {path}: unknown MIG profiles {unknown}, known: {list(GPU_INSTANCE_SLOTS)}"
        )
    return model


@functools.cache
def _directory(directory: Path) -> dict[str, Path]:
    if not directory.is_dir():
        raise ModelError(f"{directory} is not a folder with GPU models")
    return {path.stem.lower(): path for path in sorted(directory.glob("*.yaml"))}


@functools.cache
def _load(path: Path) -> GpuModel:
    return load_model_file(path)


def known_models(directories: tuple[Path, ...] = ()) -> list[str]:
    """Return the names of the models in ``directories`` and of those that come with the package."""
    return sorted(
        {path.stem for directory in (*directories, _DATA) for path in _directory(directory).values()}
    )


def load_model(name: str, directories: tuple[Path, ...] = ()) -> GpuModel:
    """Return the model that ``name`` means: the name of a data file, an alias of a model, or the path of a data file.

    Args:
        directories: searched for data files before the package's own files.

    Raises:
        UnknownModelError: there is no such model.
        ModelError: its data file is invalid, or one of the directories does not exist.
    """
    if name.endswith((".yaml", ".yml")):
        return load_model_file(Path(name))
    searched = (*directories, _DATA)
    for directory in searched:
        if path := _directory(directory).get(name.lower()):
            return _load(path)
    for directory in searched:
        for path in _directory(directory).values():
            model = _load(path)
            if name.lower() in {model.name.lower(), *(alias.lower() for alias in model.aliases)}:
                return model
    raise UnknownModelError(
        f"unknown GPU model {name!r}, known models: {', '.join(known_models(directories))} "
        "(or the path of a model's .yaml file)"
    )
