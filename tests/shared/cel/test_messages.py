"""Test messages created by type name against the answers of the real environment."""

import pytest
from dra_shared.api.resource import DeviceAttribute
from dra_shared.cel import CelDevice, CompileError, compile_expression

from tests.support.cases import each_case

FEATURES = frozenset(("DRAConsumableCapacity", "DRAListTypeAttributes"))
DEVICE = CelDevice("d", {"i": DeviceAttribute(int_=1)}, {})
PB = "google.protobuf."
FIELD = "field type conversion error for google.protobuf.{} value type: "


@each_case(
    ("expression", "estimated", "cost"),
    [
        (f'{PB}Duration{{seconds: 1}} == duration("1s")', 42, 41),
        (f"{PB}Timestamp{{seconds: 5}} == timestamp(5)", 42, 41),
        (f'{PB}Struct{{fields: {{"a": "x"}}}} == {{"a": "x"}}', 101, 41),
        (f'{PB}Struct{{fields: {{"c": dyn(9007199254740993)}}}} == {{"c": "9007199254740993"}}', 102, 41),
        (f'{PB}Struct{{fields: {{"a": dyn(duration("1h"))}}}} == {{"a": "3600s"}}', 103, 41),
        (f'{PB}Struct{{fields: {{"b": dyn(b"abc")}}}} == {{"b": "YWJj"}}', 102, 41),
        (f"{PB}Value{{number_value: 1.5}} == 1.5", 41, 41),
        (f"{PB}Value{{null_value: 5}} == null", 41, 41),
        (f"{PB}Value{{bool_value: true}} && true", 40, 40),
        (f'{PB}ListValue{{values: ["a"]}}[0] == "a"', 52, 43),
        (f"{PB}Int64Value{{value: 7}} == 7 && {PB}Int64Value{{}} + 1 == 1", 83, 83),
        (f"{PB}FloatValue{{value: 0.1}} != 0.1", 41, 41),
        (f"{PB}Int64Value{{?value: optional.none()}} == 0", 42, 42),
        (f"type({PB}Empty{{}}) == {PB}Empty", 1844674407370955306, 42),
        (f"{PB}Empty{{}} == {PB}Empty{{}}", 1844674407370955344, 81),
        (f'{PB}Struct.FieldsEntry{{key: "a"}}.key == "a"', 42, 43),
        (f"!optional.ofNonZeroValue({PB}Struct.FieldsEntry{{}}).hasValue()", 43, 43),
        (f"{PB}NullValue.NULL_VALUE == 0", 2, 1),
    ],
)  # fmt: skip
def test_expressions_with_messages_are_true(expression: str, estimated: int, cost: int) -> None:
    program = compile_expression(expression, features=FEATURES)
    outcome = program.evaluate(DEVICE)
    assert (outcome.matches, program.estimated_cost, outcome.cost) == (True, estimated, cost)
    assert program.matches(DEVICE)


@each_case(
    ("expression", "error"),
    [
        (f"{PB}Int32Value{{value: 9999999999}} == 1", FIELD.format("Int32Value.value") + "integer overflow"),
        (f"{PB}UInt32Value{{value: 9999999999u}} == 1u",
         FIELD.format("UInt32Value.value") + "unsigned integer overflow"),
        (f'{PB}Int64Value{{value: dyn("x")}} == 0',
         FIELD.format("Int64Value.value") + "unsupported native conversion from string to 'int64'"),
        (f'{PB}Struct{{fields: {{"c": dyn({{1: 2}})}}}} == {{}}',
         FIELD.format("Struct.fields") + "unsupported type conversion from 'int' to string"),
        (f"{PB}ListValue{{values: dyn(1)}} == []", "unsupported field type for google.protobuf.ListValue.values: int"),
        (f'{PB}Any{{type_url: "x"}} == null',
         'unsupported conversion to ref.Val: (*dynamicpb.Message)type_url:"x"'),
        ('kubernetes.DRADevice{driver: "x"}.driver == "x"', "unknown type 'kubernetes.DRADevice'"),
        ("timestamp{} == timestamp(0)", "unknown type 'timestamp'"),
    ],
)  # fmt: skip
def test_invalid_message_literals_have_the_expected_errors(expression: str, error: str) -> None:
    assert compile_expression(expression, features=FEATURES).evaluate(DEVICE).error == error


@each_case(
    ("expression", "found"),
    [
        (f"{PB}BoolValue{{value: true}}", ["must evaluate to bool or the unknown type, not wrapper(bool)"]),
        (f"[{PB}Int64Value{{value: 1}}, null]", ["1:40: expected type 'wrapper(int)' but found 'null'"]),
        (f"{PB}Value{{number_value: 1}}",
         ["1:35: expected type of field 'number_value' is 'double' but provided type is 'int'"]),
        (f"{PB}Int64Value{{nosuch: 3}} == 3", ["1:34: undefined field 'nosuch'"]),
        ('int{a: 1 + "x"}', ["1:4: 'int' is not a message type", "1:6: undefined field 'a'",
                             "1:10: found no matching overload for '_+_' applied to '(int, string)'"]),
        ('device{driver: "x"}', ["1:7: 'kubernetes.DRADevice' is not a type",
                                 "1:14: unexpected failed resolution of 'device'"]),
        (f"type(1) == {PB}Struct",
         ["program instantiation failed: reference to undefined type: google.protobuf.Struct"]),
        ("type(1) == duration", ["program instantiation failed: reference to undefined type: duration"]),
        ("type(device) == kubernetes.DRADevice",
         ["program instantiation failed: reference to undefined type: kubernetes.DRADevice"]),
        (f"{PB}FieldMask{{}}", ["1:26: undeclared reference to 'google.protobuf.FieldMask' (in container '')"]),
    ],
)  # fmt: skip
def test_compile_errors_of_messages_equal_those_of_cel_go(expression: str, found: list[str]) -> None:
    with pytest.raises(CompileError) as caught:
        compile_expression(expression, features=FEATURES)
    lines = caught.value.text.removeprefix("compilation failed: ").split("\n")
    assert [line.removeprefix("ERROR: <input>:") for line in lines if not line.startswith(" |")] == found
