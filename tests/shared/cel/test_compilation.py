"""Test the errors of compilation and the properties of compiled expressions."""

import pytest
from dra_shared.cel import CelDevice, CompileError, ErrorKind, compile_expression, program
from dra_shared.features import FeatureGates
from dra_shared.version import V1_35, V1_36, V1_37

from tests.support.cases import each_case

LISTS = frozenset(("DRAConsumableCapacity", "DRAListTypeAttributes"))


def compile_error(expression: str, features: frozenset[str] = LISTS, stored: bool = True) -> str:
    with pytest.raises(CompileError) as caught:
        compile_expression(expression, features=features, stored=stored)
    assert caught.value.kind is ErrorKind.INVALID
    return caught.value.text


@each_case(
    ("expression", "text"),
    [
        ("nothing", "1:1: undeclared reference to 'nothing' (in container '')"),
        ("nothing(1)", "1:8: undeclared reference to 'nothing' (in container '')"),
        ("device.nothing == 1", "1:7: undefined field 'nothing'"),
        ('"a" == 1', "1:5: found no matching overload for '_==_' applied to '(string, int)'"),
        ("!1", "1:1: found no matching overload for '!_' applied to '(int)'"),
        ("true && 1", "1:9: expected type 'bool' but found 'int'"),
        ("[1, 'a'] == []", "1:5: expected type 'int' but found 'string'"),
        ("1.exists(x, x)", "1:1: expression of type 'int' cannot be range of a comprehension"),
        ("device.driver.x", "1:14: type 'string' does not support field selection"),
        ("[1].all(1, true)", "1:9: argument must be a simple name"),
        ("[1].map(1, 1) == []", "1:9: argument is not an identifier"),
        ("has(device)", "1:5: invalid argument to has() macro"),
        ("for", "1:1: reserved identifier: for"),
        ("duration('x') == duration('1s')", "1:10: invalid duration argument"),
        ("'a'.matches('[')", "1:13: invalid matches argument"),
        (
            "'%d'.format(['a']) == ''",
            "1:14: error during formatting: decimal clause can only be used on integers",
        ),
        ("99999999999999999999 == 1", "1:1: invalid int literal"),
        ("device.driver ==", "1:17: Syntax error: mismatched input '<EOF>' expecting"),
        ("a.true", "Syntax error"),
        ("true true", "1:6: Syntax error: extraneous input 'true' expecting <EOF>"),
        ("true true false", "1:6: Syntax error: mismatched input 'true' expecting <EOF>"),
        ("'abc", "Syntax error"),
        ("Foo{a: 1} == 1", "1:4: undeclared reference to 'Foo' (in container '')"),
        ("[1].all(device, .device.driver == 'x')", "1:24: type 'int' does not support field selection"),
        ("[1].all(x, .x{} == 1)", "1:14: 'int' is not a type"),
        (
            "[{'protobuf': {'Timestamp': 1}}].all(google, google.protobuf.Timestamp == 1)",
            "found no matching overload for '_==_' applied to '(type(timestamp), int)'",
        ),
    ],
)
def test_invalid_expressions_have_the_expected_issues(expression: str, text: str) -> None:
    found = compile_error(expression)
    assert found.startswith("compilation failed: ERROR: <input>:")
    assert text in found


def test_a_compile_error_shows_the_line_with_a_caret() -> None:
    assert compile_error("true &&\n  nope") == (
        "compilation failed: ERROR: <input>:2:3: undeclared reference to 'nope' (in container '')\n"
        " |   nope\n"
        " | ..^"
    )


def test_issues_are_sorted_by_position() -> None:
    lines = compile_error("1 + 'a' == 2 && nope").split("\n")
    assert [line.partition(": ")[0] for line in lines if "ERROR" in line][-1] == "ERROR"
    assert "1:3" in lines[0]
    assert "1:17" in lines[3]


@each_case(
    ("expression", "type_name"),
    [
        ("1", "int"),
        ("'a'", "string"),
        ("[1]", "list(int)"),
        ("{'a': 1.5}", "map(string, double)"),
        ("null", "null_type"),
        ("duration('1s')", "google.protobuf.Duration"),
        ("optional.of(1)", "optional_type(int)"),
        ("quantity('1')", "kubernetes.Quantity"),
        ("type(1)", "type(int)"),
    ],
)
def test_an_expression_whose_result_is_not_a_bool_is_rejected(expression: str, type_name: str) -> None:
    assert compile_error(expression) == f"must evaluate to bool or the unknown type, not {type_name}"


def test_invalid_constant_conversions_are_compile_errors() -> None:
    with pytest.raises(CompileError) as caught:
        compile_expression("int('a') == 1", features=LISTS)
    assert caught.value.kind is ErrorKind.INTERNAL
    assert caught.value.text == "program instantiation failed: type conversion error from 'string' to 'int'"


def test_feature_gates_determine_the_functions_that_new_expressions_may_use() -> None:
    multiple = "device.allowMultipleAllocations == true"
    assert "undefined field" in compile_error(multiple, frozenset(), stored=False)
    compile_expression(multiple, features=frozenset(), stored=True)
    compile_expression(multiple, features=FeatureGates(), stored=False)
    includes = 'device.attributes["a"].b.includes(1)'
    assert "undeclared reference to 'includes'" in compile_error(includes, frozenset(), stored=False)
    compile_expression(includes, features=LISTS, stored=False)


def test_attribute_values_are_any_or_dyn() -> None:
    expression = 'device.attributes["a"].b'
    older = compile_expression(expression, features=frozenset(), kubernetes=V1_36)
    assert older.output_type == "google.protobuf.Any"
    assert compile_expression(expression, features=LISTS, kubernetes=V1_36).output_type == "dyn"
    # Stored expressions are typed as if all gates were on since 1.37.
    assert compile_expression(expression, features=frozenset()).output_type == "dyn"
    new = compile_expression(expression, features=frozenset(), stored=False)
    assert new.output_type == "google.protobuf.Any"


_LISTED = 'device.attributes["a"].b'


@pytest.mark.parametrize(
    ("expression", "in_1_36", "in_1_37"),
    [
        (f"{_LISTED}.includes(1)", 52, 68),
        ("'abc'.includes('a')", 48, 3),
        ("[1, 2].includes(1)", 58, 12),
        ("['ab', 'c'].includes('a')", 58, 3689348814741910540),
        (f"dyn({_LISTED}.map(x, x)).includes(1)", 896, 912),
    ],
)
def test_includes_costs_the_size_of_its_target_since_1_37(
    expression: str, in_1_36: int, in_1_37: int
) -> None:
    for version, cost in ((V1_36, in_1_36), (V1_37, in_1_37)):
        found = compile_expression(expression, features=LISTS, kubernetes=version)
        assert found.estimated_cost == cost, version


def test_the_function_includes_does_not_exist_before_1_36() -> None:
    with pytest.raises(CompileError, match="undeclared reference to 'includes'"):
        compile_expression("[1].includes(1)", features=LISTS, kubernetes=V1_35)


@each_case(
    ("expression", "attributes", "capacity"),
    [
        ("true", set(), set()),
        ('device.driver == "a"', set(), set()),
        ('device.attributes["a"].b && has(device.attributes["a"].c)', {("a", "b"), ("a", "c")}, set()),
        ('"b" in device.attributes["a"]', {("a", "b")}, set()),
        ('device.attributes["a"].?b.orValue(true)', {("a", "b")}, set()),
        ('cel.bind(x, device.attributes["a"], x.b && x.c)', {("a", "b"), ("a", "c")}, set()),
        ('device.capacity["a"].b.isInteger()', set(), {("a", "b")}),
    ],
)
def test_the_attributes_that_an_expression_reads_are_reported(
    expression: str, attributes: set[tuple[str, str]], capacity: set[tuple[str, str]]
) -> None:
    program = compile_expression(expression, features=LISTS)
    assert program.attributes_read == frozenset(attributes)
    assert program.capacity_read == frozenset(capacity)


@pytest.mark.parametrize(
    "expression",
    [
        "device.attributes.exists(x, true)",
        'size(device.attributes["a"]) > 1',
        'device.attributes["a"][device.driver]',
        "dyn(device).driver == 'a'",
    ],
)
def test_dynamic_reads_of_attributes_are_reported_as_unknown(expression: str) -> None:
    assert compile_expression(expression, features=LISTS).attributes_read is None


def test_compiled_programs_are_cached() -> None:
    first = compile_expression("true", features=LISTS)
    assert compile_expression("true", features=LISTS) is first


def test_nested_loops_compile_in_linear_time() -> None:
    program = compile_expression("[1].all(a, " * 100 + "true" + ")" * 100, features=LISTS)
    assert program.matches(CelDevice("d"))


@pytest.mark.parametrize(
    "expression",
    ["(" * 240 + "true" + ")" * 240, "true" + " && true" * 1000, "'a'" + ".trim()" * 240 + " == 'a'"],
)
def test_long_expressions_compile(expression: str) -> None:
    assert compile_expression(expression, features=LISTS).matches(CelDevice("d"))


def test_the_cache_of_compiled_programs_evicts_long_programs_earlier() -> None:
    def selector(number: int, length: int) -> str:
        return " || ".join([f'device.driver == "driver-{number}"'] * (length // 30))

    short = compile_expression(selector(0, 500), features=())
    long = compile_expression(selector(0, 1200), features=())
    for number in range(1, program.LONG_KEPT + 1):
        compile_expression(selector(number, 1200), features=())
    assert compile_expression(selector(0, 500), features=()) is short
    assert compile_expression(selector(0, 1200), features=()) is not long
