"""Test the report about a selector: which devices match, and which clause excludes the others."""

import pytest
from dra_shared.api.resource import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from dra_shared.cel.program import MAX_COST
from dra_shared.cel.workbench import CelAnswer, candidates, clauses, evaluate
from dra_shared.features import FeatureGates

from tests.support.cases import each_case

_DRIVER = "gpu.example.com"
_LARGE = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
_A100 = 'device.attributes["gpu.example.com"].model == "A100"'


def _device(name: str, model: str | None, memory: str) -> Device:
    attributes = {} if model is None else {"model": DeviceAttribute(string=model)}
    return Device(name=name, attributes=attributes, capacity={"memory": DeviceCapacity(value=memory)})


def _slice(pool: str, generation: int, *devices: Device) -> ResourceSlice:
    spec = ResourceSliceSpec(
        driver=_DRIVER,
        node_name=pool,
        pool=ResourcePool(name=pool, generation=generation, resource_slice_count=1),
        devices=devices,
    )
    return ResourceSlice(spec=spec)


def _try(expression: str, most: int = 1000) -> CelAnswer:
    slices = [
        _slice("b", 2, _device("gpu-0", "A100", "80Gi"), _device("gpu-1", "T4", "16Gi")),
        _slice("a", 1, _device("gpu-0", "H100", "80Gi"), _device("gpu-1", None, "80Gi")),
        _slice("b", 1, _device("gone", "A100", "80Gi")),
    ]
    return evaluate(expression, candidates(slices), FeatureGates(), most)


def test_each_device_names_the_clause_that_excluded_it() -> None:
    report = _try(f"{_A100} && {_LARGE}")
    assert (report.devices, report.matches) == (4, 1)
    assert [(clause.expression, clause.matches) for clause in report.clauses] == [(_A100, 1), (_LARGE, 3)]
    first = report.findings[0]
    assert (first.node, first.device, first.matches, first.clauses) == ("b", "gpu-0", True, (True, True))
    assert first.values == {f"{_DRIVER}/model": "A100", f"{_DRIVER}/memory": "80Gi"}
    others = {(one.node, one.device): one for one in report.findings[1:]}
    assert others["b", "gpu-1"].clauses == (False, False)
    assert others["a", "gpu-0"].clauses == (False, True)
    without = others["a", "gpu-1"]
    assert (without.matches, without.error) == (False, "no such key: model")
    assert without.clauses == ("no such key: model", True)
    assert without.values == {f"{_DRIVER}/memory": "80Gi"}


def test_costs_are_those_that_the_scheduler_counts() -> None:
    report = _try(_A100)
    assert report.cost_limit == MAX_COST
    assert 0 < report.highest_cost <= report.estimated_cost < MAX_COST


def test_a_limited_report_lists_matching_devices_first() -> None:
    report = _try(_LARGE, most=3)
    assert (report.devices, report.matches, len(report.findings)) == (4, 3, 3)
    assert all(one.matches for one in report.findings)


@pytest.mark.parametrize(
    ("expression", "offset", "message"),
    [
        ("device.drivr == 'x'", 6, "undefined field 'drivr'"),
        ("device.driver ==", 16, "Syntax error"),
        ("device.driver", -1, "must evaluate to bool"),
    ],
)
def test_compile_errors_have_their_position(expression: str, offset: int, message: str) -> None:
    report = _try(expression)
    assert report.problems[0].offset == offset
    assert message in report.problems[0].message
    assert report.findings == ()


@each_case(
    ("expression", "parts"),
    [
        ("a", ["a"]),
        (" a &&\n (b && c) && d[x && y] ", ["a", "(b && c)", "d[x && y]"]),
        ("a && b || c", ["a && b || c"]),
        ("a && b ? c : d", ["a && b ? c : d"]),
        ("a && (b || c)", ["a", "(b || c)"]),
        ("'x && y' == z && b", ["'x && y' == z", "b"]),
    ],
)
def test_clauses_are_the_operands_of_the_outermost_and(expression: str, parts: list[str]) -> None:
    found = clauses(expression)
    if len(parts) == 1:
        assert [one.expression for one in found] == [expression.strip()]
    else:
        assert [one.expression for one in found] == parts
    assert all(expression[one.start : one.end] == one.expression for one in found)
