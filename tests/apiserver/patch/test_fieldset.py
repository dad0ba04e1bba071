"""Test that sets of fields behave as sets of paths."""

from dra_apiserver.patch.fieldset import (
    FieldSet,
    difference,
    intersection,
    key_step,
    members,
    path_text,
    sort_steps,
    union,
    value_step,
    without,
)
from hypothesis import given
from hypothesis import strategies as st

Path = tuple[str, ...]
PATHS = st.sets(
    st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":1}']), min_size=1, max_size=4).map(tuple), max_size=8
)


def tree(paths: set[Path]) -> FieldSet:
    made: FieldSet = {}
    for path in paths:
        one: FieldSet = {}
        for step in reversed(path):
            one = {step: one}
        made = union(made, one)
    return made


def paths_of(fields: FieldSet) -> set[Path]:
    return set(members(fields))


@given(PATHS)
def test_a_field_set_contains_the_paths_that_it_was_built_from(paths: set[Path]) -> None:
    assert paths_of(tree(paths)) == paths


@given(PATHS, PATHS)
def test_union_difference_and_intersection_of_field_sets_equal_those_of_path_sets(
    left: set[Path], right: set[Path]
) -> None:
    one, other = tree(left), tree(right)
    assert paths_of(union(one, other)) == left | right
    assert paths_of(difference(one, other)) == left - right
    assert paths_of(intersection(one, other)) == left & right
    assert paths_of(one) == left
    assert paths_of(other) == right


@given(PATHS, PATHS)
def test_removing_paths_removes_the_paths_below_them(paths: set[Path], gone: set[Path]) -> None:
    left = without(tree(paths), sorted(gone))
    assert paths_of(left) == {path for path in paths if not any(path[: len(one)] == one for one in gone)}


@given(PATHS)
def test_the_order_of_paths_does_not_matter(paths: set[Path]) -> None:
    assert sort_steps(tree(paths)) == tree(paths)


def test_paths_are_formatted_as_upstream() -> None:
    path = ("f:spec", "f:ports", key_step({"protocol": "TCP", "containerPort": 80}), "f:name")
    assert path_text(path) == '.spec.ports[containerPort=80,protocol="TCP"].name'
    assert path_text(("f:metadata", "f:finalizers", value_step("x/y"))) == '.metadata.finalizers[="x/y"]'


def test_path_elements_are_encoded_as_in_go() -> None:
    assert key_step({"uid": "<&>"}) == 'k:{"uid":"\\u003c\\u0026\\u003e"}'
    assert value_step("a<b") == 'v:"a\\u003cb"'
    assert path_text((key_step({"uid": "<&>"}),)) == '[uid="<&>"]'
