"""Create the simulated GPUs of a node from a line of text, and keep their state over restarts of the agent."""

import functools
import re
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from dra_driverkit.files import write_atomically
from dra_shared.files import private_folder
from dra_shared.log import logger

from dra_node_agent.nvml.fabric import fabric_member
from dra_node_agent.nvml.model import COMPUTE_INSTANCE_SLOTS, GpuInstanceProfile, GpuModel, load_model
from dra_node_agent.nvml.profilename import profile_name
from dra_node_agent.nvml.system import ComputeInstance, GpuInstance, SimulatedGpu, SimulatedSystem

DEFAULT_GPUS = "8xA100-SXM4-40GB"

#: MIG layouts by name: the profiles to create on the GPUs of each half of a group, or None for MIG mode off.
_BALANCED = ("3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb")

_MOST_GPUS = 32

#: The profiles to create on a GPU; None for MIG mode off.
_Layout = tuple[str, ...] | None

_GROUP = re.compile(r"(?:(?P<count>[0-9]+)x)?(?P<model>[^:,]+?)(?::(?P<layout>[^,:]+))?")

_log = logger(__name__)


class GpuSpecError(ValueError):
    """A description of GPUs is not valid; the message says what is allowed."""


def parse_gpus(text: str, seed: str, directories: tuple[Path, ...] = ()) -> list[SimulatedGpu]:
    """Create GPUs from ``8xA100-SXM4-40GB`` or, in groups, ``4xA100-SXM4-40GB:whole,4xA100-SXM4-40GB:mig``.

    A group's layout is one of ``whole`` (MIG mode off), ``mig`` (MIG mode on, without devices),
    ``half-balanced`` (the first half of the GPUs has two 1g, one 2g and one 3g device each, the rest is
    whole) or the profiles to create on each GPU, like ``3g.20gb+3g.20gb``. Without a layout, a group is
    half-balanced if its model has these profiles (the A100 with 40 GB), as in the quickstart of NVIDIA's driver,
    and otherwise whole.

    Args:
        seed: the node's name, from which the UUIDs are derived.
        directories: the directories of users' GPU models.

    Raises:
        GpuSpecError: the text is malformed.
        UnknownModelError: a model is not known.
    """
    gpus: list[SimulatedGpu] = []
    for group in filter(None, (part.strip() for part in text.split(","))):
        match = _GROUP.fullmatch(group)
        if match is None:
            raise GpuSpecError(f"GPUs {text!r}: {group!r} is not of the form COUNTxMODEL[:LAYOUT]")
        count = min(int(match["count"] or 1), _MOST_GPUS + 1)
        model = load_model(match["model"], directories)
        first, rest = _layouts(model, match["layout"])
        for place in range(count):
            gpu = SimulatedGpu(len(gpus), model, seed)
            _lay_out(gpu, first if place < count // 2 else rest)
            gpus.append(gpu)
    if len(gpus) > _MOST_GPUS:
        raise GpuSpecError(f"GPUs {text!r}: a node has room for {_MOST_GPUS}")
    numbers = Counter(gpu.model.name for gpu in gpus)
    members = {gpu.model.name: fabric_member(gpu.model, seed, numbers[gpu.model.name]) for gpu in gpus}
    for gpu in gpus:
        gpu.fabric = members[gpu.model.name]
    return gpus


def _layouts(model: GpuModel, layout: str | None) -> tuple[_Layout, _Layout]:
    """Return the layouts of the first and of the second half of a group's GPUs."""
    like = SimulatedGpu(0, model, "")
    names = {profile_name(like, profile) for profile in model.mig_profiles}
    if layout in (None, "half-balanced"):
        fits = names.issuperset(_BALANCED)
        if layout and not fits:
            raise GpuSpecError(
                f"layout half-balanced needs the profiles {', '.join(_BALANCED)}: not on {model.name}"
            )
        return _BALANCED if fits else None, None
    if layout == "whole":
        return None, None
    if layout == "mig":
        wanted: tuple[str, ...] = ()
    else:
        wanted = tuple(re.split(r"\+(?=[0-9])", layout or ""))
    if not names or not names.issuperset(wanted):
        raise GpuSpecError(
            f"MIG layout {layout!r}: {model.name} knows "
            + (f"whole, mig and the profiles {', '.join(sorted(names))}" if names else "no MIG, only whole")
        )
    return wanted, wanted


def _lay_out(gpu: SimulatedGpu, profiles: _Layout) -> None:
    if profiles is None:
        return
    gpu.mig_enabled = gpu.mig_pending = True
    wanted = [next(p for p in gpu.model.mig_profiles if profile_name(gpu, p) == name) for name in profiles]
    starts = _place(wanted, frozenset())
    if starts is None:
        raise GpuSpecError(f"MIG layout {'+'.join(profiles)} does not fit on one {gpu.model.name}")
    for profile, start in zip(wanted, starts, strict=True):
        instance = gpu.create_instance(profile, start)
        gpu.create_compute_instance(instance, COMPUTE_INSTANCE_SLOTS[profile.slices])


def _place(wanted: list[GpuInstanceProfile], taken: frozenset[int]) -> list[int] | None:
    """Return the start (memory slice) of each instance, or None if the instances do not fit together."""
    if not wanted:
        return []
    first, size = wanted[0], wanted[0].placements.size
    for start in first.placements.starts:
        slices = frozenset(range(start, start + size))
        if taken.isdisjoint(slices):
            rest = _place(wanted[1:], taken | slices)
            if rest is not None:
                return [start, *rest]
    return None


def open_system(
    text: str, seed: str, path: Path | None = None, directories: tuple[Path, ...] = ()
) -> SimulatedSystem:
    """Return the simulated machine of a node, with the state that the file ``path`` holds, if there is one.

    MIG instances, modes and the boot id are hardware and kernel state: they outlive the agent's process, so
    they are stored in a file. They are discarded if the GPUs are chosen differently, or if the file is
    deleted, which counts as a reboot.

    Raises:
        GpuSpecError, UnknownModelError, ModelError: as :func:`parse_gpus`.
    """
    kept = _read(path, text) if path is not None else None
    booted = functools.partial(parse_gpus, text, seed, directories)
    system = SimulatedSystem(booted(), boot_id=kept["bootID"] if kept else str(uuid.uuid4()))
    system.booted = booted
    if kept:
        system.imex_ready = kept.get("imexReady", True)
        for gpu, saved in zip(system.gpus, kept["gpus"], strict=True):
            _restore(gpu, saved)
    if path is not None:
        system.keep = functools.partial(_write, str(path), text)
        system.notify_change()
    return system


def _read(path: Path, text: str) -> dict[str, Any] | None:
    try:
        kept: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    return kept if kept.get("spec") == text else None


def _write(file: str, text: str, system: SimulatedSystem) -> None:
    content = {
        "spec": text,
        "bootID": system.boot_id,
        "imexReady": system.imex_ready,
        "gpus": [_save(gpu) for gpu in system.gpus],
    }
    path = Path(file)
    try:
        private_folder(path.parent)
        write_atomically(path, msgspec.json.encode(content), durable=False)
    except OSError as error:
        # A full disk must not fail a call to the hardware. The next change writes the whole state again.
        _log.warning("GPU state not written", path=file, error=str(error))


def _save(gpu: SimulatedGpu) -> dict[str, Any]:
    return {
        "mig": [gpu.mig_enabled, gpu.mig_pending],
        "made": gpu.made,
        "computeMode": gpu.compute_mode,
        "timeSlice": gpu.time_slice,
        "vfio": gpu.vfio,
        "instances": [
            [
                i.id,
                i.profile.id,
                i.start,
                [[c.id, c.slices, c.start, c.uuid] for c in i.compute_instances.values()],
            ]
            for i in gpu.instances.values()
        ],
    }


def _restore(gpu: SimulatedGpu, saved: dict[str, Any]) -> None:
    gpu.mig_enabled, gpu.mig_pending = saved["mig"]
    gpu.made, gpu.compute_mode, gpu.time_slice = saved["made"], saved["computeMode"], saved["timeSlice"]
    gpu.vfio = saved["vfio"]
    gpu.instances.clear()
    for number, profile_id, start, computes in saved["instances"]:
        instance = GpuInstance(number, gpu.profile_by_id(profile_id), start)
        instance.compute_instances = {c[0]: ComputeInstance(*c) for c in computes}
        gpu.instances[number] = instance
