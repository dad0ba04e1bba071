from pathlib import Path

import pytest
from dra_node_agent.nvml.model import UnknownModelError
from dra_node_agent.nvml.node import GpuSpecError, open_system, parse_gpus
from dra_node_agent.nvml.profilename import profile_name
from dra_node_agent.nvml.system import SimulatedGpu

from tests.support.cases import each_case


def _migs(gpu: SimulatedGpu) -> list[str]:
    return sorted(profile_name(gpu, instance.profile) for instance, _ in gpu.mig_devices())


def test_eight_a100s_are_half_balanced_as_in_the_drivers_quickstart() -> None:
    gpus = parse_gpus("8xA100-SXM4-40GB", "node-0")
    assert [gpu.mig_enabled for gpu in gpus] == [True] * 4 + [False] * 4
    assert all(_migs(gpu) == ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"] for gpu in gpus[:4])


@each_case(
    ("text", "enabled", "migs"),
    [
        ("2xA100-SXM4-40GB:whole", [False, False], []),
        ("H100", [False], []),
        ("1xA100:mig, 1xT4", [True, False], []),
        ("1xA100:7g.40gb", [True], ["7g.40gb"]),
        ("1xA100:1g.5gb+me+3g.20gb", [True], ["1g.5gb+me", "3g.20gb"]),
        ("1xA30:2g.12gb+1g.6gb+1g.6gb", [True], ["1g.6gb", "1g.6gb", "2g.12gb"]),
    ],
)
def test_a_gpu_specification_sets_mig_mode_and_devices(
    text: str, enabled: list[bool], migs: list[str]
) -> None:
    gpus = parse_gpus(text, "n")
    assert [gpu.mig_enabled for gpu in gpus] == enabled
    assert _migs(gpus[0]) == migs


@each_case(
    ("text", "message"),
    [
        ("8x", "unknown GPU model '8x'"),
        ("8x:whole:mig:", "not of the form"),
        ("33xT4", "a node has room for 32"),
        ("A100:5g.5gb", "knows whole, mig and the profiles"),
        ("T4:mig", "knows no MIG, only whole"),
        ("T4:half-balanced", "not on Tesla T4"),
        ("A100:4g.20gb+4g.20gb", "does not fit on one"),
    ],
)
def test_an_invalid_gpu_specification_is_rejected(text: str, message: str) -> None:
    with pytest.raises((GpuSpecError, UnknownModelError), match=message):
        parse_gpus(text, "n")


def test_gpus_of_a_node_have_unique_and_stable_uuids() -> None:
    first, again, other = (parse_gpus("2xL4", seed) for seed in ("a", "a", "b"))
    assert [gpu.uuid for gpu in first] == [gpu.uuid for gpu in again]
    assert not {gpu.uuid for gpu in first} & {gpu.uuid for gpu in other}


def test_the_state_of_simulated_gpus_is_restored_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    system = open_system("2xA100:mig", "n", path)
    gpu = system.gpus[0]
    instance = gpu.create_instance(gpu.profile_by_id(19), 3)
    made = gpu.create_compute_instance(instance, 0)
    gpu.compute_mode = 3
    system.notify_change()
    again = open_system("2xA100:mig", "n", path)
    assert again.boot_id == system.boot_id
    assert again.gpus[0].instances[instance.id].start == 3
    assert again.gpus[0].instances[instance.id].compute_instances[made.id].uuid == made.uuid
    assert again.gpus[0].compute_mode == 3


def test_the_state_is_discarded_after_a_reboot_or_with_other_gpus(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    boot = open_system("1xT4", "n", path).boot_id
    assert open_system("1xL4", "n", path).boot_id != boot
    boot = open_system("1xL4", "n", path).boot_id
    path.unlink()
    assert open_system("1xL4", "n", path).boot_id != boot


def test_a_rebooted_machine_has_only_the_state_of_its_specification(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    system = open_system("1xA100:1g.5gb,1xA100:whole", "n", path)
    system.gpus[0].create_instance(system.gpus[0].profile_by_id(19), 3)
    system.gpus[1].vfio = True
    system.inject_xid(1, 79)
    system.reboot("second")
    assert [len(gpu.instances) for gpu in system.gpus] == [1, 0]
    assert (system.gpus[1].vfio, system.gpus[1].last_xid) == (False, 0)
    assert open_system("1xA100:1g.5gb,1xA100:whole", "n", path).boot_id == "second"


def test_a_damaged_state_file_of_a_machine_is_discarded(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_text("{")
    assert len(open_system("1xL4", "n", path).gpus) == 1
