"""The `nvidia-smi` of a container, which shows exactly the devices that were injected into the container.

NVML in a container sees the GPUs whose device nodes exist in it. Of a GPU in MIG mode, it sees the MIG
devices whose capability nodes exist too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from dra_driverkit.cdi import ContainerEdits

from dra_node_agent.nvml.profilename import profile_name
from dra_node_agent.nvml.system import (
    NO_INSTANCE,
    ComputeInstance,
    GpuInstance,
    SimulatedGpu,
    SimulatedSystem,
    caps_instance,
)

_SHORTEST_LOOP = 0.1
_BINARY = "/usr/bin/nvidia-smi"
_GPU_NODE = "/dev/nvidia"
_CAPS_NODE = "/dev/nvidia-caps/nvidia-cap"


@dataclass(frozen=True)
class Output:
    """The output of the command, and its exit code."""

    text: str
    exit_code: int = 0


@dataclass(frozen=True)
class Seen:
    """A GPU as a container sees it.

    Args:
        index: its number in the container, counted from 0.
        migs: the MIG devices that are open, in order.
    """

    index: int
    gpu: SimulatedGpu
    migs: tuple[tuple[GpuInstance, ComputeInstance], ...]


def is_installed(edits: ContainerEdits) -> bool:
    """Return True if the container has the program. The mounts of the driver bring it in."""
    return any(mount.container_path == _BINARY for mount in edits.mounts)


def visible_gpus(edits: ContainerEdits, system: SimulatedSystem) -> list[Seen]:
    """Return the GPUs and MIG devices to which the edits give access."""
    paths = {node.path for node in edits.device_nodes}
    minors = {int(p.removeprefix(_GPU_NODE)) for p in paths if p.removeprefix(_GPU_NODE).isdigit()}
    open_instances = {
        instance
        for path in paths
        if path.startswith(_CAPS_NODE) and (instance := caps_instance(int(path.removeprefix(_CAPS_NODE))))
    }
    seen: list[Seen] = []
    for gpu in system.visible_gpus():
        if gpu.index not in minors or gpu.lost:
            continue
        migs = tuple(
            (gi, ci)
            for gi, ci in gpu.mig_devices()
            if (gpu.index, gi.id, None) in open_instances and (gpu.index, gi.id, ci.id) in open_instances
        )
        seen.append(Seen(len(seen), gpu, migs))
    return seen


def run_smi(args: Sequence[str], edits: ContainerEdits, system: SimulatedSystem, now: datetime) -> Output:
    """Run ``nvidia-smi`` with ``args`` in a container with ``edits``.

    Knows no arguments, ``-L``, ``--version``, and ``--query-gpu=…`` or ``--query-compute-apps=…`` with
    ``--format=csv[,noheader][,nounits]``; ``-i`` selects GPUs for all of these.
    """
    gpus = visible_gpus(edits, system)
    wanted, chosen = _split_choice([a for a in args if a])
    if chosen is not None:
        gpus = [seen for seen in gpus if chosen & {str(seen.index), seen.gpu.uuid, _bus_id(seen.gpu)}]
    if any(a in ("-h", "--help") for a in wanted):
        return Output(
            f"NVIDIA System Management Interface -- v{system.driver_version}\n\n"
            "nvidia-smi [-L] [--query-gpu=... --format=csv]\n"
        )
    if wanted == ["--version"]:
        return Output(_version(system))
    query = next((a.partition("=")[2] for a in wanted if a.startswith("--query-gpu=")), None)
    unknown = [
        a
        for a in wanted
        if a not in ("-L", "--list-gpus")
        and not a.startswith(("--query-gpu=", "--query-compute-apps=", "--format="))
    ]
    if unknown:
        return Output(
            f"dralab: of nvidia-smi, {' '.join(unknown)} is not simulated, or an invalid combination of arguments. "
            "Please run 'nvidia-smi -h' for help.\n",
            1,
        )
    if not gpus:
        return Output("No devices were found\n", 6)
    if query is not None:
        formats = next((a.partition("=")[2] for a in wanted if a.startswith("--format=")), "")
        return _query(query.split(","), formats.split(","), gpus, system)
    apps = next((a.partition("=")[2] for a in wanted if a.startswith("--query-compute-apps=")), None)
    if apps is not None:
        formats = next((a.partition("=")[2] for a in wanted if a.startswith("--format=")), "")
        return _apps(apps.split(","), formats.split(","), gpus)
    if wanted:
        return Output("".join(_listing(gpus)))
    return Output("\n".join(_table(gpus, system, now)) + "\n")


def split_loop(args: Sequence[str]) -> tuple[list[str], float | None]:
    """Return the arguments without ``-l SECONDS``, and the seconds; None without the option."""
    kept: list[str] = []
    pause: float | None = None
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word in ("-l", "--loop", "-lms") or word.startswith("--loop="):
            value = word.partition("=")[2] or (rest.pop(0) if rest and rest[0].isdigit() else "5")
            scale = 1000 if word == "-lms" else 1
            pause = max(float(value) / scale, _SHORTEST_LOOP) if value.isdigit() else 5.0
        else:
            kept.append(word)
    return kept, pause


def _split_choice(words: Sequence[str]) -> tuple[list[str], set[str] | None]:
    """Return the arguments without ``-i``, and the GPUs that ``-i`` names."""
    kept: list[str] = []
    chosen: set[str] | None = None
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "-i" or word.startswith("--id="):
            value = word.partition("=")[2] or (rest.pop(0) if rest else "")
            chosen = set(value.split(","))
        else:
            kept.append(word)
    return kept, chosen


def _bus_id(gpu: SimulatedGpu) -> str:
    return gpu.nvml_bus_id


def _version(system: SimulatedSystem) -> str:
    cuda = f"{system.cuda_driver_version // 1000}.{system.cuda_driver_version % 1000 // 10}"
    rows = {
        "NVIDIA-SMI version": system.driver_version,
        "NVML version": system.driver_version.rpartition(".")[0],
        "DRIVER version": system.driver_version,
        "CUDA Version": cuda,
    }
    return "".join(f"{name:<20}: {value}\n" for name, value in rows.items())


def _apps(fields: Sequence[str], formats: Sequence[str], gpus: Sequence[Seen]) -> Output:
    """Print the processes on the GPUs, for ``--query-compute-apps``."""
    if "csv" not in formats:
        return Output("\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n", 1)
    names = [field.strip() for field in fields]
    unit = "" if "nounits" in formats else " MiB"
    lines = []
    for seen in gpus:
        for process in seen.gpu.processes:
            values = {
                "pid": str(process.pid),
                "process_name": process.name,
                "name": process.name,
                "used_memory": f"{process.used_mib}{unit}",
                "used_gpu_memory": f"{process.used_mib}{unit}",
                "gpu_uuid": seen.gpu.uuid,
                "gpu_name": seen.gpu.model.name,
                "gpu_bus_id": _bus_id(seen.gpu),
            }
            lines.append(", ".join(values.get(name, "[N/A]") for name in names))
    if "noheader" not in formats:
        memory = {"used_memory": "used_gpu_memory [MiB]", "used_gpu_memory": "used_gpu_memory [MiB]"}
        lines.insert(0, ", ".join(memory.get(name, name) for name in names))
    return Output("".join(f"{line}\n" for line in lines))


def _listing(gpus: Iterable[Seen]) -> Iterable[str]:
    for seen in gpus:
        yield f"GPU {seen.index}: {seen.gpu.model.name} (UUID: {seen.gpu.uuid})\n"
        for number, (instance, compute) in enumerate(seen.migs):
            name = profile_name(seen.gpu, instance.profile)
            yield f"  MIG {name:<10} Device {number:>2}: (UUID: {compute.uuid})\n"


def _query(
    fields: Sequence[str], formats: Sequence[str], gpus: Sequence[Seen], system: SimulatedSystem
) -> Output:
    if "csv" not in formats:
        return Output("\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n", 1)
    names = [field.strip() for field in fields]
    lines = []
    header: list[str] = []
    for seen in gpus:
        values = _values(seen, len(gpus), system)
        missing = next((name for name in names if name not in values), None)
        if missing is not None:
            return Output(f'Field "{missing}" is not a valid field to query.\n', 2)
        header = [f"{name} [{values[name][1]}]" if values[name][1] else name for name in names]
        units = "nounits" not in formats
        lines.append(
            ", ".join(
                f"{value} {unit}" if unit and units else value
                for value, unit in (values[name] for name in names)
            )
        )
    if "noheader" not in formats:
        lines.insert(0, ", ".join(header))
    return Output("\n".join(lines) + "\n")


def _values(seen: Seen, count: int, system: SimulatedSystem) -> dict[str, tuple[str, str]]:
    """Return the value and the unit of each field that can be queried."""
    gpu = seen.gpu
    total = gpu.model.memory_mib
    pci = _bus_id(gpu)
    known = {
        "index": (str(seen.index), ""),
        "count": (str(count), ""),
        "name": (gpu.model.name, ""),
        "gpu_name": (gpu.model.name, ""),
        "uuid": (gpu.uuid, ""),
        "gpu_uuid": (gpu.uuid, ""),
        "serial": (gpu.serial, ""),
        "driver_version": (system.driver_version, ""),
        "pci.bus_id": (pci, ""),
        "gpu_bus_id": (pci, ""),
        "memory.total": (str(total), "MiB"),
        "memory.used": (str(gpu.used_mib), "MiB"),
        "memory.free": (str(total - gpu.used_mib), "MiB"),
        "utilization.gpu": ("[N/A]", "") if gpu.mig_enabled else (str(gpu.utilization), "%"),
        "temperature.gpu": (str(gpu.temperature), ""),
        "power.draw": (f"{gpu.power_milliwatts / 1000:.2f}", "W"),
        "power.limit": (f"{gpu.model.power_limit_watts:.2f}", "W"),
        "compute_cap": (gpu.model.cuda_compute_capability, ""),
        "compute_mode": (_COMPUTE_MODES[gpu.compute_mode].replace(" ", "_"), ""),
        "mig.mode.current": (_mig_mode(gpu, "Enabled", "Disabled", "[N/A]"), ""),
    }
    return known


_COMPUTE_MODES = ("Default", "Exclusive Thread", "Prohibited", "Exclusive Process")
_SHORT_MODES = ("Default", "E. Thread", "Prohibited", "E. Process")


def _mig_mode(gpu: SimulatedGpu, on: str, off: str, never: str) -> str:
    if not gpu.mig_capable:
        return never
    return on if gpu.mig_enabled else off


def _table(gpus: Sequence[Seen], system: SimulatedSystem, now: datetime) -> Iterable[str]:
    cuda = f"{system.cuda_driver_version // 1000}.{system.cuda_driver_version % 1000 // 10}"
    line = "+" + "-" * 89 + "+"
    driver = system.driver_version
    versions = f"NVIDIA-SMI {driver:<20} Driver Version: {driver:<14} CUDA Version: {cuda}"
    cells = (41, 24, 22)
    yield now.strftime("%a %b %e %H:%M:%S %Y") + "       "
    yield line
    yield f"| {versions:<88}|"
    yield _rule("-", cells)
    yield _row(
        cells, "GPU  Name                 Persistence-M", "Bus-Id          Disp.A", "Volatile Uncorr. ECC"
    )
    yield _row(
        cells, "Fan  Temp   Perf          Pwr:Usage/Cap", "          Memory-Usage", "GPU-Util  Compute M."
    )
    yield _row(cells, "", "", f"{'MIG M.':>20}")
    yield _rule("=", cells)
    for seen in gpus:
        yield from _gpu_rows(cells, seen)
        yield _rule("-", cells)
    if any(seen.migs for seen in gpus):
        yield ""
        yield from _mig_table(gpus)
    yield ""
    yield line
    yield f"| {'Processes:':<88}|"
    yield f"| {' GPU   GI   CI              PID   Type   Process name                        GPU Memory':<88}|"
    yield f"| {'       ID   ID                                                               Usage     ':<88}|"
    yield "|" + "=" * 89 + "|"
    processes = list(_processes(gpus))
    yield from processes or [f"| {' No running processes found':<88}|"]
    yield line


def _gpu_rows(cells: tuple[int, int, int], seen: Seen) -> Iterable[str]:
    gpu = seen.gpu
    ecc = "N/A" if not gpu.model.ecc else "On" if gpu.mig_enabled else str(gpu.uncorrected_ecc)
    power = f"{gpu.power_milliwatts // 1000}W / {gpu.model.power_limit_watts:>4}W"
    memory = f"{gpu.used_mib}MiB / {gpu.model.memory_mib:>6}MiB"
    utilization = "N/A" if gpu.mig_enabled else f"{gpu.utilization}%"
    persistence = "On" if gpu.persistence else "Off"
    state = "P0" if gpu.utilization else "P8"
    yield _row(
        cells,
        f"{seen.index:>3}  {gpu.model.name[:24]:<26}{persistence:>8}",
        f"{gpu.nvml_bus_id} Off",
        f"{ecc:>20}",
    )
    yield _row(
        cells,
        f"N/A  {gpu.temperature:>3}C    {state}     {power:>20}",
        f"{memory:>22}",
        f"{utilization:>8} {_SHORT_MODES[gpu.compute_mode]:>11}",
    )
    yield _row(cells, "", "", f"{_mig_mode(gpu, 'Enabled', 'Disabled', 'N/A'):>20}")


def _mig_table(gpus: Sequence[Seen]) -> Iterable[str]:
    cells = (18, 34, 11, 23)
    yield "+" + "-" * 89 + "+"
    yield f"| {'MIG devices:':<88}|"
    yield _rule("-", cells)
    yield _row(cells, "GPU  GI  CI  MIG", "Memory-Usage", "Vol|", "Shared")
    yield _row(cells, "     ID  ID  Dev", "BAR1-Usage", "SM  ECC", "CE  ENC  DEC  OFA JPG")
    yield _rule("=", cells)
    for seen in gpus:
        for number, (instance, compute) in enumerate(seen.migs):
            profile = instance.profile
            used = sum(
                p.used_mib
                for p in seen.gpu.processes
                if (p.gpu_instance, p.compute_instance) == (instance.id, compute.id)
            )
            engines = (
                f"{profile.copy_engines:>2} {profile.encoders:>4} {profile.decoders:>4} "
                f"{profile.ofa_engines:>4} {profile.jpeg_engines:>3}"
            )
            yield _row(
                cells,
                f"{seen.index:>3} {instance.id:>3} {compute.id:>3} {number:>4}",
                f"{used}MiB / {profile.memory_mib:>6}MiB".rjust(31),
                f"{profile.multiprocessors:>3}   0",
                engines,
            )
            yield _rule("-", cells)


def _processes(gpus: Sequence[Seen]) -> Iterable[str]:
    for seen in gpus:
        opened = {(gi.id, ci.id) for gi, ci in seen.migs}
        for process in seen.gpu.processes:
            place = (process.gpu_instance, process.compute_instance)
            if seen.gpu.mig_enabled and place not in opened:
                continue
            ids = ("N/A", "N/A") if place[0] == NO_INSTANCE else (str(place[0]), str(place[1]))
            text = (
                f"{seen.index:>4} {ids[0]:>4} {ids[1]:>4} {process.pid:>16}      C   {process.name:<33} "
                f"{process.used_mib:>6}MiB"
            )
            yield f"| {text:<88}|"


def _row(cells: Sequence[int], *texts: str) -> str:
    return "|" + "|".join(f" {text:<{width - 1}}" for width, text in zip(cells, texts, strict=True)) + "|"


def _rule(mark: str, cells: Sequence[int]) -> str:
    ends = "+" if mark == "-" else "|"
    return ends + "+".join(mark * width for width in cells) + ends
