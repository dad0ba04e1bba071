"""Test what cel-go 0.33 changed in Kubernetes 1.38, against k8s.io/dynamic-resource-allocation v0.38.0-beta.0."""

import pytest
from dra_shared.cel import CelDevice, CompileError, Program, compile_expression
from dra_shared.cel.ranges import MAX
from dra_shared.cel.suggestions import Catalog
from dra_shared.version import V1_37, V1_38, Version


def compile_stored(expression: str, version: Version) -> Program:
    return compile_expression(expression, features=(), kubernetes=version)


def estimate(expression: str, version: Version) -> int:
    return compile_stored(expression, version).estimated_cost


@pytest.mark.parametrize(
    ("expression", "before", "now"),
    [
        # An unbounded size stays unbounded.
        ("device.driver.contains(string(device.driver.size()))", 12912720851596686854, MAX),
        ("bytes(string(1)) == b'A'", 1844674407370955266, MAX),
        # Types have a size.
        ("type(int(1.5)) == type(string(1))", 1844674407370955268, 5),
        # Texts in a list are read to find the distinct ones.
        ("[device.driver].distinct() == [device.driver]", 38, 39),
        # A sorted list has items of the same sizes.
        ('"A".endsWith(["A", "B"].distinct()[9])', 1844674407370955294, 32),
    ],
)
def test_estimated_costs_changed_in_1_38(expression: str, before: int, now: int) -> None:
    assert (estimate(expression, V1_37), estimate(expression, V1_38)) == (before, now)


@pytest.mark.parametrize(("version", "cost"), [(V1_37, 13), (V1_38, 12)])
def test_a_slice_call_that_fails_adds_no_cost_for_items(version: Version, cost: int) -> None:
    outcome = compile_stored("[1, 2].slice(-1, 1) == [1]", version).evaluate(CelDevice("d.example.com"))
    assert outcome.cost == cost


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("math.greatest(1, 2) == 2", "(did you mean 'path'?)"),
        ("devise.driver == 'a'", "(did you mean 'device'?)"),
        ("optional.nne() == optional.none()", "'optional.nne' (did you mean 'optional.none'?)"),
    ],
)
def test_errors_about_undeclared_names_suggest_similar_names(expression: str, hint: str) -> None:
    with pytest.raises(CompileError, match="undeclared reference to") as error:
        compile_stored(expression, V1_38)
    assert hint in str(error.value)
    with pytest.raises(CompileError, match="in container") as error:
        compile_stored(expression, V1_37)
    assert "did you mean" not in str(error.value)


def test_suggestions_are_the_nearest_or_longer_names() -> None:
    catalog = Catalog(("device", "lowerAscii", "upperAscii", "lists.range"))
    assert catalog.find("device") == ["device"]
    assert catalog.find("devcie") == ["device"]
    assert catalog.find("lowrAscii") == ["lowerAscii"]
    assert catalog.find("upper") == ["upperAscii"]
    assert catalog.find("list.range") == ["lists.range"]
    assert catalog.suggest("completelyDifferent") == ""


def test_ismask_recognizes_networks_without_host_bits() -> None:
    for text, is_mask in (("10.0.0.0/8", "true"), ("10.0.0.1/8", "false")):
        expression = f'cidr("{text}").isMask() == {is_mask}'
        assert compile_stored(expression, V1_38).evaluate(CelDevice("d.example.com")).matches
        with pytest.raises(CompileError):
            compile_stored(expression, V1_37)
