from pathlib import Path

import pytest
from dra_node_agent.nvml.model import ModelError, UnknownModelError, known_models, load_model
from dra_node_agent.nvml.profilename import profile_name
from dra_node_agent.nvml.system import SimulatedGpu

from tests.support.cases import each_case

_PROFILES = {
    "A30-24GB": ["1g.6gb", "1g.6gb+me", "2g.12gb", "2g.12gb+me", "4g.24gb"],
    "A100-SXM4-40GB": ["1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"],
    "A100-SXM4-80GB": ["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"],
    "H100-SXM5-80GB": ["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"],
    "H200-SXM5-141GB": ["1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"],
    "H100-PCIE-80GB": ["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"],
    "H100-NVL-94GB": ["1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"],
    "GH200-96GB": ["1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"],
    "GH200-NVL32-96GB": ["1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"],
    "GB200-186GB": ["1g.23gb", "1g.23gb+me", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"],
    "GB300-278GB": ["1g.35gb", "1g.35gb+me", "1g.70gb", "2g.70gb", "3g.139gb", "4g.139gb", "7g.278gb"],
    "RTX-PRO-6000-BLACKWELL-96GB": [
        *("1g.24gb", "1g.24gb+me", "1g.24gb+gfx", "1g.24gb+me.all", "1g.24gb-me"),
        *("2g.48gb", "2g.48gb+gfx", "2g.48gb+me.all", "2g.48gb-me", "4g.96gb", "4g.96gb+gfx"),
    ],
    "B200-SXM6-180GB": ["1g.23gb", "1g.23gb+me", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"],
}


@each_case("name", known_models())
def test_mig_profiles_have_the_names_that_nvidia_smi_shows(name: str) -> None:
    model = load_model(name)
    gpu = SimulatedGpu(0, model, "node")
    assert [profile_name(gpu, profile) for profile in model.mig_profiles] == _PROFILES.get(name, [])


@each_case("name", sorted(_PROFILES))
def test_the_instance_count_of_a_mig_profile_fits_on_the_gpu(name: str) -> None:
    model = load_model(name)
    largest = max(model.mig_profiles, key=lambda profile: profile.slices)
    for profile in model.mig_profiles:
        gpu = SimulatedGpu(0, model, "node", mig_enabled=True)
        for _ in range(profile.instances):
            gpu.create_instance(profile)
        assert not gpu.free_starts(profile)
        assert profile.instances * profile.memory_mib <= largest.memory_mib
        assert profile.instances * profile.multiprocessors <= largest.multiprocessors
        assert profile.instances * profile.decoders <= largest.decoders


def test_the_error_for_an_unknown_model_lists_the_known_ones() -> None:
    with pytest.raises(
        UnknownModelError, match=r"unknown GPU model 'H900', known models: A100-SXM4-40GB, .*T4-16GB"
    ):
        load_model("H900")


@pytest.mark.parametrize("alias", ["a100", "A100-40GB", "NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"])
def test_a_model_is_found_by_its_aliases(alias: str) -> None:
    assert load_model(alias).name == "NVIDIA A100-SXM4-40GB"


_OWN = """
name: Acme Accelerator
architecture: Hopper
brand: Nvidia
cudaComputeCapability: "9.9"
memoryMiB: 1024
pciDeviceID: 0x123410DE
powerLimitWatts: 10
"""


def test_models_are_loaded_from_a_directory_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "acme.yaml"
    path.write_text(_OWN)
    assert load_model("acme", (tmp_path,)).memory_mib == 1024
    assert load_model(str(path)).name == "Acme Accelerator"
    assert "acme" in known_models((tmp_path,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "did not find expected node content"),
        ("name: x", "missing required field"),
        (_OWN + "colour: red\n", "unknown field `colour`"),
        (_OWN + "fabric: {gpus: 0}\n", "a fabric of 0 GPUs"),
        (_OWN + "slots: [{address: '65:00.0', numaNode: 0}]\n", "not a PCI address: 65:00.0"),
        (
            _OWN + "migProfiles: [{profile: 9_SLICE, id: 1, slices: 1, instances: 1, memoryMiB: 1, "
            "multiprocessors: 1, copyEngines: 1, placements: {starts: [0], size: 1}}]\n",
            "unknown MIG profiles",
        ),
    ],
)
def test_a_broken_model_file_is_reported_with_its_path(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(ModelError, match=f"(?s){path}.*{message}"):
        load_model(str(path))


def test_a_missing_file_or_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=f"^cannot read GPU model {tmp_path}/x.yaml: No such file or directory$"
    ):
        load_model(f"{tmp_path}/x.yaml")
    with pytest.raises(ModelError, match=f"^{tmp_path}/nowhere is not a folder with GPU models$"):
        load_model("T4", (tmp_path / "nowhere",))
