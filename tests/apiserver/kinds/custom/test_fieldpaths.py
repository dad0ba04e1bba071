"""Test paths of fields against kube-apiserver 1.36.2."""

from typing import Any

import pytest
from dra_apiserver.kinds.custom.fieldpaths import PathError, check_selectable, follow

from tests.support.cases import each_case

SPEC = {
    "a": {"type": "string"},
    "n": {"type": "number"},
    "x-y": {"type": "string"},
    "l": {"type": "array", "items": {"type": "string"}},
    "m": {"type": "object", "additionalProperties": {"type": "string"}},
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"metadata": {"type": "object"}, "spec": {"type": "object", "properties": SPEC}},
}
SORTS = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are "
    "allowed."
)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (".spec.a", ["spec", "a"]),
        ("['spec']['a']", ["spec", "a"]),
        (".spec.x-y", ["spec", "x-y"]),
        (".spec.m['a.b']", ["spec", "m", "a.b"]),
        (".spec.m['it\\'s']", ["spec", "m", "it's"]),
    ],
)
def test_a_field_path_selects_the_named_values(path: str, names: list[str]) -> None:
    assert follow(path, SCHEMA)[0] == names


@each_case(
    ("path", "expected"),
    [
        ("spec", "expected [ or . but got: spec"),
        (".spec.", "unexpected end of JSON path"),
        (".spec['a'", "unexpected end of JSON path"),
        (".spec[a]", "expected single quoted string but got a"),
        (".spec['a'.x", "expected ] but got ."),
        (".spec.m['\\q']", "invalid string literal: invalid escape char \\q"),
        (".spec.zz", "does not refer to a valid field"),
        (".spec.l[0]", "expected single quoted string but got 0"),
        (".spec.a.b", "does not refer to a valid field"),
    ],
)
def test_invalid_field_paths_are_rejected(path: str, expected: str) -> None:
    with pytest.raises(PathError) as refused:
        follow(path, SCHEMA)
    assert str(refused.value) == expected


@each_case(
    ("paths", "expected"),
    [
        ([".spec.a", ".spec.m.x"], []),
        ([""], ["f[0].jsonPath: Required value"]),
        (
            [".spec['a']"],
            [
                "f[0].jsonPath: Invalid value: \".spec['a']\": is an invalid path: array notation is not allowed",
            ],
        ),
        (
            [".metadata"],
            [
                'f[0].jsonPath: Invalid value: ".metadata": must not point to fields in metadata',
                f'f[0].jsonPath: Invalid value: ".metadata": {SORTS}',
            ],
        ),
        ([".spec.n"], [f'f[0].jsonPath: Invalid value: ".spec.n": {SORTS}']),
        ([".spec.a", ".spec.a"], ['f[1].jsonPath: Duplicate value: ".spec.a"']),
        ([f".spec.m.f{i}" for i in range(9)], ["f: Too many: 9: must have at most 8 items"]),
    ],
)
def test_selectable_fields_need_a_path_to_a_scalar(paths: list[str], expected: list[str]) -> None:
    errors = check_selectable([{"jsonPath": path} for path in paths], SCHEMA, "f")
    assert [str(error) for error in errors] == expected
