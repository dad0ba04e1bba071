"""Test that expressions may be as deep as in cel-go, and not deeper."""

import sys

import pytest
from dra_shared.cel import CelDevice, CompileError, compile_expression

from tests.support.cases import each_case

FEATURES = frozenset(("DRAConsumableCapacity", "DRAListTypeAttributes"))
DEVICE = CelDevice("gpu.example.com", {}, {}, None)

PARSER = "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
VISITOR = "compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded"


@each_case(
    "expression",
    [
        "[1].exists(x, " * 248 + "x == 1" + ")" * 248,
        "[" * 249 + "1" + "]" * 249 + ".size() == 1",
        "1 + (" * 124 + "1" + ")" * 124 + " == 125",
        "true == (" * 124 + "true" + ")" * 124,
        " + ".join(["1"] * 250) + " == 250",
        " && ".join(["[true][0]"] * 400),
        "!" * 400 + "true",
    ],
)
def test_expressions_of_the_greatest_depth_compile(expression: str) -> None:
    limit = sys.getrecursionlimit()
    assert compile_expression(expression, features=FEATURES).matches(DEVICE) is True
    assert sys.getrecursionlimit() == limit


@each_case(
    ("expression", "text"),
    [
        ("[1].exists(x, " * 249 + "x == 1" + ")" * 249, PARSER),
        ("[" * 250 + "1" + "]" * 250 + ".size() == 1", PARSER),
        ("1 + (" * 125 + "1" + ")" * 125 + " == 126", PARSER),
        ("true == (" * 125 + "true" + ")" * 125, PARSER),
        ("true ? true : " * 250 + "false", PARSER),
        ("(" * 300 + "true", PARSER),
        (" + ".join(["1"] * 251) + " == 251", VISITOR),
        ("{}" + ".a" * 250 + " == 1", VISITOR),
        ("[1]" + "[0]" * 250 + " == 1", VISITOR),
    ],
)
def test_expressions_deeper_than_the_limit_are_rejected(expression: str, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_expression(expression, features=FEATURES)
    assert caught.value.text == text


def test_the_innermost_of_many_mixed_literals_are_reported() -> None:
    expression = "[1, " * 123 + "1" + "]" * 123 + ".size() == 2"
    with pytest.raises(CompileError) as caught:
        compile_expression(expression, features=FEATURES)
    assert caught.value.text.startswith(
        "compilation failed: ERROR: <input>:1:93: expected type 'int' but found"
    )
    assert caught.value.text.endswith("22 more errors were truncated")
