"""The examples in the documentation work."""

import re
from pathlib import Path

import pytest
from dra_node_agent.drivers.profile import known_profiles, load_profile
from dra_node_agent.drivers.profile.devices import resources
from dra_node_agent.nvml.model import known_models, load_model, load_model_file
from dra_node_agent.nvml.node import parse_gpus

from tests.support.cases import each_case
from tests.support.reference import REPOSITORY

_PROFILES = (REPOSITORY / "docs" / "driver-profiles.md").read_text()
_FOLLOWED = (REPOSITORY / "docs" / "followed-drivers.md").read_text()
_FOLLOWED = (REPOSITORY / "docs" / "followed-drivers.md").read_text()
_MODELS = (REPOSITORY / "docs" / "gpu-models.md").read_text()


def _yaml(text: str) -> str:
    match = re.search(r"(?:```yaml|<<'EOF')\n(.*?)(?:```|EOF)", text, re.DOTALL)
    assert match is not None
    return match[1]


def test_the_example_profile_publishes_devices(tmp_path: Path) -> None:
    path = tmp_path / "nic.yaml"
    path.write_text(_yaml(_PROFILES))
    (slice_,) = resources(load_profile(str(path)), "node-0").pools["node-0"].slices
    assert [device.name for device in slice_.devices] == ["nic-0", "nic-1"]


@each_case("name", known_profiles())
def test_all_profiles_and_variants_are_described(name: str) -> None:
    row = next(line for line in (_PROFILES + _FOLLOWED).splitlines() if line.startswith(f"| `{name}`"))
    assert all(f"`{variant}`" in row for variant in load_profile(name).variants)


def test_the_example_model_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(_yaml(_MODELS))
    assert load_model_file(path).mig_profiles[0].id == load_model("A30").mig_profiles[0].id


@each_case("name", known_models())
def test_all_gpu_models_are_described(name: str) -> None:
    assert f"`{name}`" in _MODELS


@pytest.mark.parametrize("text", re.findall(r"^\| `([0-9]+x[^`]+)`", _MODELS, re.MULTILINE))
def test_the_example_gpus_can_be_simulated(text: str) -> None:
    assert parse_gpus(text, "node-0")
