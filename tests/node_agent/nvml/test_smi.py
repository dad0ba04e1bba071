from datetime import UTC, datetime

import pytest
from dra_driverkit.cdi import ContainerEdits, DeviceNode, Mount
from dra_node_agent.nvml.node import open_system
from dra_node_agent.nvml.smi import Output, is_installed, run_smi, split_loop
from dra_node_agent.nvml.system import Process, SimulatedSystem, caps_minor

_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def system() -> SimulatedSystem:
    return open_system("8xA100-SXM4-40GB", "node-0")


def _edits(*paths: str) -> ContainerEdits:
    return ContainerEdits(device_nodes=tuple(DeviceNode(path) for path in ("/dev/nvidiactl", *paths)))


def _caps(gpu: int, instance: int, compute: int = 0) -> tuple[str, str]:
    return (
        f"/dev/nvidia-caps/nvidia-cap{caps_minor(gpu, instance)}",
        f"/dev/nvidia-caps/nvidia-cap{caps_minor(gpu, instance, compute)}",
    )


def test_only_the_injected_gpus_are_listed_and_numbered_from_zero(system: SimulatedSystem) -> None:
    output = run_smi(["-L"], _edits("/dev/nvidia7", "/dev/nvidia5"), system, _NOW)
    assert output.text == (
        f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {system.gpus[5].uuid})\n"
        f"GPU 1: NVIDIA A100-SXM4-40GB (UUID: {system.gpus[7].uuid})\n"
    )


def test_only_mig_devices_with_injected_capabilities_are_listed(system: SimulatedSystem) -> None:
    gpu = system.gpus[1]
    devices = {instance.profile.slices: (instance, compute) for instance, compute in gpu.mig_devices()}
    instance, compute = devices[2]
    output = run_smi(["-L"], _edits("/dev/nvidia1", *_caps(1, instance.id)), system, _NOW)
    assert output.text == (
        f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {gpu.uuid})\n"
        f"  MIG 2g.10gb    Device  0: (UUID: {compute.uuid})\n"
    )
    half_open = run_smi(["-L"], _edits("/dev/nvidia1", _caps(1, instance.id)[0]), system, _NOW)
    assert "MIG-" not in half_open.text


def test_no_devices_are_reported_without_injected_gpus(system: SimulatedSystem) -> None:
    assert run_smi(["-L"], _edits(), system, _NOW) == Output("No devices were found\n", 6)
    system.lose(6)
    assert run_smi([], _edits("/dev/nvidia6"), system, _NOW).exit_code == 6


def test_the_table_of_nvidia_smi_has_gpus_mig_devices_and_processes(system: SimulatedSystem) -> None:
    system.gpus[6].processes.append(Process(4242, "nbody", 512))
    system.gpus[6].utilization = 97
    instance, _ = next(iter(system.gpus[0].mig_devices()))
    edits = _edits("/dev/nvidia6", "/dev/nvidia0", *_caps(0, instance.id))
    text = run_smi([], edits, system, _NOW).text
    lines = text.splitlines()
    assert lines[0].startswith("Fri Jan  2 03:04:05 2026")
    assert "Driver Version: 580.95.05" in text
    assert "CUDA Version: 13.0" in text
    assert "512MiB /  40960MiB" in text
    assert "97%" in text
    assert "4242      C   nbody" in text
    assert "MIG devices:" in text
    assert {len(line) for line in lines if line.startswith(("|", "+"))} == {91}


def test_nvidia_smi_queries_are_printed_as_csv(system: SimulatedSystem) -> None:
    edits = _edits("/dev/nvidia6")
    output = run_smi(
        ["--query-gpu=index,name,memory.total,utilization.gpu", "--format=csv"], edits, system, _NOW
    )
    assert output.text.splitlines() == [
        "index, name, memory.total [MiB], utilization.gpu [%]",
        "0, NVIDIA A100-SXM4-40GB, 40960 MiB, 0 %",
    ]
    bare = run_smi(["--query-gpu=memory.total", "--format=csv,noheader,nounits"], edits, system, _NOW)
    assert bare.text == "40960\n"
    assert run_smi(["--query-gpu=colour", "--format=csv"], edits, system, _NOW).exit_code == 2
    assert run_smi(["--query-gpu=name"], edits, system, _NOW).exit_code == 1


def test_unknown_arguments_of_nvidia_smi_are_rejected(system: SimulatedSystem) -> None:
    assert run_smi(["--reset"], _edits("/dev/nvidia6"), system, _NOW).exit_code == 1
    assert "nvidia-smi" in run_smi(["-h"], _edits("/dev/nvidia6"), system, _NOW).text


def test_nvidia_smi_is_installed_by_the_mounts_of_the_driver() -> None:
    assert not is_installed(_edits("/dev/nvidia0"))
    assert is_installed(ContainerEdits(mounts=(Mount("/x/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi"),)))


def test_the_loop_option_of_nvidia_smi_is_removed_from_the_repeated_command() -> None:
    assert split_loop(["-L"]) == (["-L"], None)
    assert split_loop(["-l", "2", "--query-gpu=name"]) == (["--query-gpu=name"], 2.0)
    assert split_loop(["--loop=1"]) == ([], 1.0)
    assert split_loop(["-l"]) == ([], 5.0)
    assert split_loop(["-lms", "500"]) == ([], 0.5)


def test_nvidia_smi_selects_a_gpu_by_index_or_uuid(system: SimulatedSystem) -> None:
    edits = _edits("/dev/nvidia5", "/dev/nvidia6")
    for chosen in ("1", system.gpus[6].uuid):
        assert system.gpus[6].uuid in run_smi(["-L", "-i", chosen], edits, system, _NOW).text
        assert system.gpus[5].uuid not in run_smi(["-L", f"--id={chosen}"], edits, system, _NOW).text
    assert run_smi(["-i", "9"], edits, system, _NOW).exit_code == 6


def test_nvidia_smi_can_query_processes_and_versions(system: SimulatedSystem) -> None:
    system.gpus[6].processes.append(Process(4242, "nbody", 512))
    query = ["--query-compute-apps=pid,name,used_memory", "--format=csv"]
    text = run_smi(query, _edits("/dev/nvidia6"), system, _NOW).text
    assert text == "pid, name, used_gpu_memory [MiB]\n4242, nbody, 512 MiB\n"
    assert (
        "DRIVER version      : 580.95.05\n"
        in run_smi(["--version"], _edits("/dev/nvidia6"), system, _NOW).text
    )
