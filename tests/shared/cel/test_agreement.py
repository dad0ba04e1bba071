"""Test cases that once differed from cel-go, with the results and costs of the real environment."""

import pytest
from dra_shared.api.resource import DeviceAttribute, DeviceCapacity
from dra_shared.cel import CelDevice, CompileError, ErrorKind, compile_expression
from dra_shared.cel import types as t
from dra_shared.cel.rules import compile_rule
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, Version

from tests.support.cases import each_case

FEATURES = frozenset(("DRAConsumableCapacity", "DRAListTypeAttributes"))
DEVICE = CelDevice(
    "d",
    {
        "i": DeviceAttribute(int_=1),
        "s": DeviceAttribute(string="abc"),
        "b": DeviceAttribute(bool_=True),
        "v": DeviceAttribute(version="1.2.3"),
        "l": DeviceAttribute(ints=(1, 2)),
    },
    {"m": DeviceCapacity(value="1Gi")},
)
LISTER = "internal error: interface conversion: {} is not traits.Lister: missing method {}"


@each_case(
    ("expression", "error"),
    [
        ('device.attributes["d"].i.flatten() == []', "no such overload: int.flatten()"),
        ('device.attributes["d"].s.flatten(1) == []', "no such overload: string.flatten(int)"),
        ("dyn({}).flatten() == []", "no such overload: map(dyn, dyn).flatten()"),
        ('device.attributes["d"].i.sort() == []', "no such overload: sort"),
        ('device.attributes["d"].s.sort() == []', "no such overload"),
        ("dyn({}).sortBy(x, x) == []", "no such overload: @sortByAssociatedKeys"),
        ('device.attributes["d"].i.distinct() == []', LISTER.format("types.Int", "Contains")),
        ('device.attributes["d"].v.distinct() == []', LISTER.format("cel.Semver", "Add")),
        ('device.attributes["d"].nosuch.distinct() == []', LISTER.format("*types.Err", "Add")),
        ('device.attributes["d"].b || [1 % 0].distinct() == []', None),
        ('[1 % 0].distinct() == [] || device.attributes["d"].b', LISTER.format("*types.Err", "Add")),
        ('device.attributes["d"].nosuch == [1].slice(2, 3).distinct()', LISTER.format("*types.Err", "Add")),
        ('device.attributes["d"].i.find("a+") == ""', "no such overload"),
        ('device.attributes["d"].s.reason() == ""', "no such overload: reason(string)"),
        ("[[1], [2], [3], [4], [5]].flatten(-3) == [1]", "operation cancelled: actual cost limit exceeded"),
        ("[18446744073709551615u, 1u].sum() == 0u", "unsigned integer overflow"),
        ('{"a": 1}[device.attributes["d"].v] == 1', "invalid qualifier type: cel.Semver"),
        ('ip("1:").isLoopback()', 'IP Address "1:" parse error during conversion from string: '
         'ParseAddr("1:"): colon must be followed by more characters (at ":")'),
        ('dyn(semver("1.2.3")) in {"a": 1}', "internal error: runtime error: hash of unhashable type cel.Semver"),
        ('{semver("1.2.3"): 1} == {}', "internal error: runtime error: hash of unhashable type cel.Semver"),
        ("sign(null) == 1", "no such overload: sign(null_type)"),
        ('(device.attributes["d"].b ? null : quantity("1")).isInteger()', "no such overload: isInteger(null_type)"),
        ('duration("2562047h") + duration("2h") == duration("1h")', "integer overflow"),
        # An optional in a variable or a branch is unwrapped to Go's own value, which need not be a CEL value.
        ('cel.bind(m, device.capacity["d"].?m, m.value().isInteger())',
         "unsupported conversion to ref.Val: (*resource.Quantity)1Gi"),
        ('device.attributes["d"].?v.optMap(v, v).value().major() == 1',
         "unsupported conversion to ref.Val: (semver.Version)1.2.3"),
        ('cel.bind(o, optional.of(ip("::1")), o == o)', "unsupported conversion to ref.Val: (netip.Addr)::1"),
        ('(true ? optional.of(cidr("::1/64")) : optional.none()).orValue(cidr("::/0")).masked() == cidr("::/0")',
         "unsupported conversion to ref.Val: (netip.Prefix)::1/64"),
        ('dyn(cel.bind(o, optional.of(url("http://a/b")), o))',
         "CEL result of type optional_type could not be converted to bool: "
         "unsupported conversion to ref.Val: (*url.URL)http://a/b"),
        ("dyn(optional.of(1)).flatten()[7] == 1", "no such overload: optional_type.flatten()"),
        ('dyn(timestamp(0)).orValue(ip("::1")).isLoopback()',
         "no such overload: isLoopback(google.protobuf.Timestamp)"),
        ("dyn(1).orValue(timestamp(0)).getHours() == 0", "no such overload: getHours(int)"),
        ("dyn(1).or(optional.of(2)).value() == 2", "no such overload: value(int)"),
        ('cel.bind(o, optional.of(ip("::1")), cel.bind(p, o, p.value().isLoopback()))',
         "unsupported conversion to ref.Val: (*errors.errorString)unsupported conversion to ref.Val: (netip.Addr)::1"),
        ('dyn(optional.of(semver("1.0.0"))).x', "unsupported conversion to ref.Val: (semver.Version)1.0.0"),
        ('dyn(duration("1s")).matches(["a"].max())', "no such overload"),
        ('semver("é.2", true).major() == 1', 'Invalid character(s) found in major number "0é"'),
        ('dyn(double("NaN")) < dyn("a")', "NaN values cannot be ordered"),
        ('timestamp(0).getHours("/etc") == 0', "time: invalid location name"),
        ('timestamp(0).getHours("a\\x00") == 0', "invalid argument"),
        ('timestamp(0).getHours("Europe") == 0', "is a directory"),
        ('timestamp(0).getHours("Europe/Berlin/x") == 0', "not a directory"),
        ('timestamp(0).getHours("europe/berlin") == 0', "unknown time zone europe/berlin"),
        ('"%s".format([b"\\xff"]) == ""', "error during formatting: could not convert argument "
         '"invalid UTF-8 in bytes, cannot convert to string" to string'),
    ],
)  # fmt: skip
def test_errors_equal_those_of_cel_go(expression: str, error: str | None) -> None:
    program = compile_expression(expression, features=FEATURES)
    outcome = program.evaluate(DEVICE)
    assert outcome.error == error
    if error is None:
        assert program.matches(DEVICE)


@each_case(
    "expression",
    [
        "{[1]: 1} != {}",
        "optional.ofNonZeroValue(optional.none()).hasValue()",
        'timestamp("0001-01-01T00:00:00Z").getFullYear("-08:30") == 0',
        'timestamp("2024-01-02T3:04:05Z").getHours() == 3',
        'double("0x1p-2") == 0.25 && double("1_0") == 10.0',
        '"%s".format([[1, "a"]]) != "x"',
        "optional.ofNonZeroValue(timestamp(0)).hasValue()",
        'timestamp(0).getHours("5:30") == 5 && timestamp(0).getHours("-0:30") == 23',
        'format.byte().validate("").hasValue() && !format.byte().validate("YR==").hasValue()',
        'format.byte().validate("ZaGVsbG8=").hasValue() && format.byte().validate("aaaa====").hasValue()',
        'format.dns1123LabelPrefix().validate("aé-").hasValue()',
        'format.qualifiedName().validate("a/b/c").value()[0].startsWith("a valid label key must consist of")',
        'dyn("a").orValue("b") == "a"',
        "dyn(optional.of(optional.of(true)))",
        'isURL("x:y") && isURL("*") && !isURL("http://%41.com/")',
        'device.attributes["d"].l.distinct() == [1, 2]',
        'string(1e6) == "1e+06" && string(123456.0) == "123456" && "%s".format([1e19]) == "1e+19"',
        '"%e".format([1.5]) == "1.500000×10⁰⁰" && "%.15e".format([0.0]) == "  0.000000×10⁰⁰"',
        '"%e".format(["NaN"]) == "   NaN" && "%.1f".format([-0.0]) == "0.0"',
        'string(timestamp("2023-06-15T01:02:03+05:30") + duration("1h")) == "2023-06-15T02:02:03+05:30"',
        'cel.bind(o, device.capacity["d"].?m, o.hasValue() && o != optional.none())',
        "cel.bind(o, optional.of(optional.of(1)), dyn(o.value()) == 1)",
        "cel.bind(o, optional.of(optional.none()), dyn(o.value()) == null)",
        "cel.bind(o, optional.of(type(1)), dyn(o.value()) == 'int')",
        'timestamp(0).getHours("Local") == 0 && timestamp(0).getHours("./UTC") == 0',
        'timestamp(0).getFullYear("99999999999:0") == 1759',
        "string(1e-320) == '1e-320'",
        "'abc'.indexOf('', 100) == 100 && 'abc'.lastIndexOf('', -1) == -1 && 'abc'.indexOf('c', 100) == -1",
        "string(quantity('1e33').asApproximateFloat()) == '1.0000000000000001e+33'",
        "null in {null: 1} && int in {type(1): 1} && optional.none() in {optional.none(): 1}",
        "duration('1s') in {duration('1s'): 1} && ip('::1') in {ip('::1'): 1}",
        "!(optional.of(1) in {optional.of(1): 1})",
        "timestamp(0) in {timestamp(0): 1} && !(timestamp('1970-01-01T01:00:00+01:00') in {timestamp(0): 1})",
        'string([3.0, double("NaN"), 1.0, 2.0].sort()[2]) == "1" && [2, 1].sortBy(x, double("NaN")) == [2, 1]',
    ],
)
def test_expressions_are_true_as_in_cel_go(expression: str) -> None:
    program = compile_expression(expression, features=FEATURES)
    assert program.matches(DEVICE)
    assert program.evaluate(DEVICE).matches is True


@each_case(
    ("expression", "kind", "text"),
    [
        ("{}[null] == 1", ErrorKind.INTERNAL, "program instantiation failed: invalid qualifier type: types.Null"),
        ('int("a") == 1', ErrorKind.INTERNAL,
         "program instantiation failed: type conversion error from 'string' to 'int'"),
        ('"a".matches("x") == "b".matches("\\\\C")', ErrorKind.INVALID,
         "compilation failed: ERROR: <input>:1:33: invalid matches argument\n"
         ' | "a".matches("x") == "b".matches("\\\\C")\n | ................................^'),
        ("timestamp(253402300800) == timestamp(1)", ErrorKind.INVALID,
         "compilation failed: ERROR: <input>:1:11: invalid timestamp argument\n"
         " | timestamp(253402300800) == timestamp(1)\n | ..........^"),
        ('"a" == [1, "a"]', ErrorKind.INVALID,
         "compilation failed: ERROR: <input>:1:5: found no matching overload for '_==_' applied to "
         "'(string, list(dyn))'\n | \"a\" == [1, \"a\"]\n | ....^"),
        ("[1].existsOne(x, true)", ErrorKind.INVALID,
         "compilation failed: ERROR: <input>:1:14: undeclared reference to 'existsOne' (in container '')\n"
         " | [1].existsOne(x, true)\n | .............^\n"
         "ERROR: <input>:1:15: undeclared reference to 'x' (in container '')\n"
         " | [1].existsOne(x, true)\n | ..............^"),
        # Upstream's server panics.
        ('{dyn(b"x"): 1} == {}', ErrorKind.INTERNAL,
         "program instantiation failed: runtime error: hash of unhashable type types.Bytes"),
        ("[map].x == 1", ErrorKind.INVALID,
         "compilation failed: ERROR: <input>:1:6: type 'list(type(map(dyn, dyn)))' does not support field selection\n"
         " | [map].x == 1\n | .....^"),
        ("[int].exists(x, x == int)", ErrorKind.INTERNAL,
         "program instantiation failed: reference to undefined type: x"),
        ("device.`driver` == 'd'", ErrorKind.INVALID,
         "compilation failed: ERROR: <input>:1:8: unsupported syntax: '`'\n"
         " | device.`driver` == 'd'\n | .......^"),
        ("map.all(x, true)", ErrorKind.INVALID,
         "compilation failed: ERROR: <input>:1:1: expression of type 'type(map(A, B))' cannot be range of a "
         "comprehension (must be list, map, or dynamic)\n | map.all(x, true)\n | ^"),
        ('duration("2s") == optional_type', ErrorKind.INVALID,
         "compilation failed: ERROR: <input>:1:16: found no matching overload for '_==_' applied to "
         "'(duration, type(optional_type))'\n | duration(\"2s\") == optional_type\n | ...............^"),
        ('"%é".format([1]) == ""', ErrorKind.INVALID,
         "compilation failed: ERROR: <input>:1:12: could not parse formatting clause: unrecognized formatting "
         'clause "Ã"\n | "%é".format([1]) == ""\n | ..．........^'),
        ("device.name() == 1", ErrorKind.INVALID,
         "compilation failed: ERROR: <input>:1:12: found no matching overload for 'name' applied to "
         "'kubernetes.DRADevice.()'\n | device.name() == 1\n | ...........^"),
        ("b'\\u00e9' == b''", ErrorKind.INVALID,
         "compilation failed: ERROR: <input>:1:1: unable to unescape string\n | b'\\u00e9' == b''\n | ^"),
    ],
)  # fmt: skip
def test_compile_errors_equal_those_of_cel_go(expression: str, kind: ErrorKind, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_expression(expression, features=FEATURES)
    assert (caught.value.kind, caught.value.text) == (kind, text)


@each_case(
    ("expression", "estimated", "actual"),
    [
        # A sign before parentheses is a call.
        ("-(1e21) <= 9.3e18", 2, 2),
        # A call is counted even if its only or last argument fails.
        ('device.attributes["d"].nosuch.isSorted()', 11, 5),
        ('bool(device.attributes["d"].nosuch)', 5, 5),
        # Naming a type costs as much as any other name.
        ("dyn(int) == string", 1844674407370955267, 1),
        # The second variable's path replaces the first one's.
        ('device.attributes["d"].exists(k, v, v == k)', 420, None),
        ('device.attributes["d"].s.check("a").allowed()', 350005, 350005),
        ('device.attributes["d"].s.check("a") == device.attributes["d"].s.check("a")', 700009, 700009),
        ('device.attributes["d"].s.labelSelector("abc").check("").allowed()', 350116, 350116),
        ('format.date().validate("2024-01-01").hasValue()', 34, 38),
        ('cidr("10.0.0.0/8").containsIP(string([][0]))', 1844674407370955281, 6),
        ('[{"a": 1}.b].sortBy(a, a) == [1]', 101, 14),
        ('cel.bind(o, optional.of(ip("::1")), o == o)', 1844674407370955278, 5),
        ("[true].map(x, [1, 2]) == [[1]]", 64, 4),
        # The length of a value that is too long is given in bytes.
        (f'format.labelValue().validate("{"a" * 64}").value().join("|") == ""', 1844674407370955490, 78),
        # has() refunds only the cost of an attribute without a condition.
        ('has((true ? device.attributes["d"] : device.attributes["e"]).s)', 3, 2),
        ('(true ? has(device.attributes["d"].s) : false)', 3, 3),
    ],
)
def test_costs_equal_those_of_cel_go(expression: str, estimated: int, actual: int | None) -> None:
    program = compile_expression(expression, features=FEATURES)
    assert program.estimated_cost == estimated
    assert actual is None or program.cost(DEVICE) == actual


def test_an_expression_on_which_cel_go_panics_is_an_error_of_that_rule_only() -> None:
    rule = compile_rule('dyn(semver(self)) in {"a": 1}', {"self": t.STRING}, {})
    result = rule.run(["1.2.3"], 1000)
    assert result.error == "internal error: runtime error: hash of unhashable type cel.Semver"


def test_duration_of_an_integer_fails_at_run_time_until_1_36() -> None:
    expression = 'duration(1 + 1) == duration("2s")'
    program = compile_expression(expression, features=FEATURES, kubernetes=V1_36)

    error = program.evaluate(DEVICE).error

    assert error == "type conversion error from 'int' to 'google.protobuf.Duration'"


def test_literal_duration_of_an_integer_is_an_invalid_argument_until_1_36() -> None:
    with pytest.raises(CompileError) as caught:
        compile_expression("duration(2) != duration(null)", features=FEATURES, kubernetes=V1_36)

    assert caught.value.text == (
        "compilation failed: ERROR: <input>:1:10: invalid duration argument\n"
        " | duration(2) != duration(null)\n | .........^\n"
        "ERROR: <input>:1:25: invalid duration argument\n"
        " | duration(2) != duration(null)\n | ........................^"
    )


def test_duration_takes_no_integer_since_1_37() -> None:
    with pytest.raises(
        CompileError, match="found no matching overload for 'duration' applied to '\\(int\\)'"
    ):
        compile_expression('duration(1 + 1) == duration("2s")', features=FEATURES, kubernetes=V1_37)


@pytest.mark.parametrize(
    ("count", "text"), [(-3, "must be non-negative"), (1_000_001, "exceeds maximum allowed")]
)
def test_range_of_a_wrong_size_is_an_error_since_1_37(count: int, text: str) -> None:
    program = compile_expression(f"lists.range({count}) == []", features=FEATURES, kubernetes=V1_37)

    assert text in (program.evaluate(DEVICE).error or "")


def test_range_of_a_negative_size_is_empty_until_1_36() -> None:
    program = compile_expression("lists.range(-3) == []", features=FEATURES, kubernetes=V1_36)

    assert program.evaluate(DEVICE).error is None


@pytest.mark.parametrize(("kubernetes", "cost"), [(V1_36, 2 + 4), (V1_37, 2 + 1)])
def test_starts_with_costs_the_length_of_the_prefix_since_1_37(kubernetes: Version, cost: int) -> None:
    text = "x" * 31
    expression = f'device.driver != "" && "{text}".startsWith("x")'

    program = compile_expression(expression, features=FEATURES, kubernetes=kubernetes)

    assert program.evaluate(DEVICE).cost == cost


@pytest.mark.parametrize("name", ["sort", "distinct", "reverse"])
def test_new_expressions_of_1_34_lack_the_list_functions_that_1_33_lacks(name: str) -> None:
    expression = f"[1].{name}() == [1]"
    with pytest.raises(CompileError, match=f"undeclared reference to '{name}'"):
        compile_expression(expression, features=FEATURES, kubernetes=V1_34, stored=False)

    assert compile_expression(expression, features=FEATURES, kubernetes=V1_34, stored=True).matches(DEVICE)
    assert compile_expression(expression, features=FEATURES, kubernetes=V1_35, stored=False).matches(DEVICE)


def test_sort_by_is_not_a_macro_in_new_expressions_of_1_34() -> None:
    with pytest.raises(CompileError, match="undeclared reference to 'sortBy'"):
        compile_expression("[1].sortBy(e, e) == [1]", features=FEATURES, kubernetes=V1_34, stored=False)
