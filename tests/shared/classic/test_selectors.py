"""Test which devices the converted expressions of old selectors match."""

from typing import Any

import pytest
from dra_shared.api.resource import DeviceAttribute, DeviceCapacity
from dra_shared.cel import CelDevice, compile_expression
from dra_shared.classic.drivers import NVIDIA, Driver
from dra_shared.classic.expressions import Inexpressible, version
from dra_shared.classic.fields import Fields
from dra_shared.classic.notes import Notes, find_lost
from dra_shared.classic.selectors import conditions

from tests.support.cases import each_case


def _gpu(memory: str, **attributes: str) -> CelDevice:
    """Return a GPU, or a slice of one if it has a profile."""
    values = {"type": "mig" if "profile" in attributes else "gpu", "architecture": "Ampere", **attributes}
    return CelDevice(
        "gpu.nvidia.com",
        {
            **{name: DeviceAttribute(string=value) for name, value in values.items()},
            "cudaComputeCapability": DeviceAttribute(version="8.0.0"),
        },
        {"memory": DeviceCapacity(value=memory)},
    )


_A100 = _gpu("40Gi", productName="NVIDIA A100-SXM4-40GB", uuid="GPU-1")
_SLICE = _gpu("4864Mi", profile="1g.5gb")
_T4 = _gpu("15Gi", architecture="Turing", productName="Tesla T4")


def _find_matching(selector: dict[str, Any], driver: Driver = NVIDIA) -> list[CelDevice]:
    notes = Notes("x")
    expressions = conditions(Fields(selector, notes), driver, "here")
    assert not find_lost(notes.entries)
    programs = [compile_expression(one, features=frozenset()) for one in expressions]
    return [device for device in (_A100, _SLICE, _T4) if all(program.matches(device) for program in programs)]


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@each_case(
    ("selector", "devices"),
    [
        # A slice's GPU has four times its memory at the least.
        (_expression("memory", "Gt", "16Gi"), [_A100, _SLICE]),
        (_expression("memory", "Gt", "20Gi"), [_A100]),
        (_expression("memory", "Lt", "20Gi"), [_T4]),
        (_expression("memory", "Gte", "40Gi"), [_A100]),
        (_expression("architecture", "In", "ampere", "HOPPER"), [_A100, _SLICE]),
        (_expression("architecture", "NotIn", "ampere"), [_T4]),
        (_expression("product-name", "Exists"), [_A100, _T4]),
        (_expression("profile", "DoesNotExist"), [_A100, _T4]),
        (_expression("cudaComputeCapability", "Gt", "7.5"), [_A100, _SLICE, _T4]),
        (_expression("gpu.nvidia.com/memory", "Gt", "16Gi"), [_A100, _SLICE]),
        ({"matchLabels": {"architecture": "turing"}}, [_T4]),
        ({"productName": "*a100*"}, [_A100]),
        ({"uuid": "GPU-1"}, [_A100]),
        ({"migEnabled": False}, [_A100, _T4]),
        ({"memory": {"value": "15Gi", "operator": "Equals"}}, [_T4]),
        ({"cudaComputeCapability": {"value": "8.0", "operator": "LessThan"}}, []),
        ({"orExpression": [{"uuid": "GPU-1"}, {"productName": "Tesla*"}]}, [_A100, _T4]),
        ({"andExpression": [{"architecture": "ampere"}, {"migEnabled": False}]}, [_A100]),
    ],
)
def test_a_converted_selector_chooses_the_same_devices(
    selector: dict[str, Any], devices: list[CelDevice]
) -> None:
    assert _find_matching(selector) == devices


@each_case(
    ("selector", "reason"),
    [
        ({"index": 0}, "no index in v1"),
        ({"migEnabled": True}, "only published as its MIG devices"),
        ({"orExpression": [{"index": 0}, {"uuid": "GPU-1"}]}, "no index in v1"),
        ({"warp": "9"}, "publishes no attribute 'warp'"),
        (_expression("memory", "Gt", "much"), "is not a quantity"),
        (_expression("memory", "Gt", "1Gi", "2Gi"), "takes one value"),
        (_expression("memory", "Near", "1Gi"), "is not known"),
        (_expression("architecture", "Gt", "ampere"), "can't be compared"),
        ({"andExpression": []}, "matches nothing"),
    ],
)
def test_conditions_without_equivalent_in_v1_are_lost(selector: dict[str, Any], reason: str) -> None:
    notes = Notes("x")
    assert conditions(Fields(selector, notes), NVIDIA, "here") == []
    [note] = find_lost(notes.entries)
    assert reason in note.text


@pytest.mark.parametrize(
    ("values", "expression"),
    [
        (
            ["3"],
            "has(device.attributes['nic.acme.com'].speed) && device.attributes['nic.acme.com'].speed > 3",
        ),
        (
            ["10Gi"],
            "has(device.capacity['nic.acme.com'].speed) && "
            "device.capacity['nic.acme.com'].speed.compareTo(quantity('10Gi')) > 0",
        ),
    ],
)
def test_attributes_of_unknown_drivers_have_the_type_of_the_value(values: list[str], expression: str) -> None:
    selector = Fields(_expression("speed", "Gt", *values), Notes("x"))
    assert conditions(selector, Driver("nic.acme.com"), "here") == [expression]


@pytest.mark.parametrize(
    ("text", "semantic"), [("8", "8.0.0"), ("470.57.02", "470.57.2"), ("v1.2.3", "1.2.3")]
)
def test_version_texts_are_converted_to_semantic_versions(text: str, semantic: str) -> None:
    assert version(text) == semantic


def test_texts_that_are_not_versions_are_not_converted() -> None:
    with pytest.raises(Inexpressible, match="is not a version"):
        version("new")


def test_a_condition_without_equivalent_does_not_affect_the_other_conditions() -> None:
    notes = Notes("x")
    either = {"orExpression": [{"index": 0}, {"index": 2}]}
    selector = {"andExpression": [{"productName": "*a100*"}, either]}
    assert len(conditions(Fields(selector, notes), NVIDIA, "here")) == 1
    assert [note.path for note in find_lost(notes.entries)] == ["andExpression[1]"]
