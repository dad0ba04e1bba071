"""Test the results of expressions with all the libraries of the environment."""

import pytest
from dra_shared.api.resource import DeviceAttribute, DeviceCapacity
from dra_shared.cel import CelDevice, CompileError, EvaluationError, compile_expression
from dra_shared.version import V1_36, V1_37, V1_38, Version

from tests.support.cases import each_case

FEATURES = frozenset(("DRAConsumableCapacity", "DRAListTypeAttributes"))
DEVICE = CelDevice(
    "gpu.example.com",
    {
        "model": DeviceAttribute(string="H100"),
        "index": DeviceAttribute(int_=3),
        "healthy": DeviceAttribute(bool_=True),
        "driverVersion": DeviceAttribute(version="570.0.1"),
        "links": DeviceAttribute(ints=(1, 2, 3)),
        "names": DeviceAttribute(strings=("a", "b")),
        "other.example.com/numa": DeviceAttribute(int_=0),
    },
    {"memory": DeviceCapacity(value="80Gi")},
    True,
)

TRUE = [
    # names with a dot in front
    "[1].all(x, .x == 1)",
    "[1].all(device, device == 1 && .device == 1)",
    "[{'a': 1}].all(x, .x.a == 1 && .x.size() == 1)",
    # the device
    'device.driver == "gpu.example.com"',
    "device.allowMultipleAllocations",
    'device.attributes["gpu.example.com"].model == "H100"',
    'device.attributes["gpu.example.com"]["index"] == 3',
    'device.attributes["gpu.example.com"].healthy',
    'device.attributes["other.example.com"].numa == 0',
    'device.attributes["gpu.example.com"].index < 3.5',
    'device.attributes["gpu.example.com"].model != 1',
    '"model" in device.attributes["gpu.example.com"]',
    '!("unknown.example.com" in device.attributes)',
    'device.attributes["unknown.example.com"].size() == 0',
    "device.attributes.size() == 2",
    'has(device.attributes["gpu.example.com"].model)',
    '!has(device.attributes["unknown.example.com"].model)',
    "has(device.attributes.unknown)",
    'device.capacity["gpu.example.com"].memory == quantity("81920Mi")',
    'device.attributes["gpu.example.com"].links.includes(2)',
    'device.attributes["gpu.example.com"].model.includes("H100")',
    '"b" in device.attributes["gpu.example.com"].names',
    'device.attributes["gpu.example.com"].links.all(x, x > 0)',
    'device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("550.0.0"))',
    # optionals and bindings
    'device.attributes["gpu.example.com"].?model.orValue("none") == "H100"',
    'device.attributes["gpu.example.com"].?nothing.orValue("none") == "none"',
    'device.attributes[?"unknown.example.com"].hasValue()',
    "!optional.none().hasValue()",
    "optional.of(1).or(optional.of(2)).value() == 1",
    "[1, ?optional.none(), ?optional.of(3)] == [1, 3]",
    '{?"a": optional.none(), "b": 1}.size() == 1',
    "optional.of(2).optMap(x, x * 2).value() == 4",
    "optional.of(2).optFlatMap(x, optional.of(x + 1)).value() == 3",
    "[1, 2].first().value() == 1 && [1, 2].last().value() == 2",
    "[][?0].hasValue() == false",
    'cel.bind(a, device.attributes["gpu.example.com"], a.index == 3 && a.healthy)',
    "cel.bind(x, 1 / 0, true)",
    # macros
    "[1, 2, 3].exists_one(x, x == 2) && [1, 2, 3].existsOne(i, x, x == 2)",
    "[1, 2, 3].map(x, x * 2) == [2, 4, 6]",
    "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
    "[1, 2, 3].filter(x, x % 2 == 1) == [1, 3]",
    "[0, 2].exists(x, 4 / x == 2)",
    "![0, 2].all(x, 4 / x == 3)",
    "[5, 6].all(i, v, v == i + 5)",
    "{1: 2}.exists(k, v, v == k + 1)",
    "[5, 6].transformList(i, v, i + v) == [5, 7]",
    "[5, 6].transformList(i, v, i > 0, v) == [6]",
    "{1: 2}.transformMap(k, v, v * 10) == {1: 20}",
    "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
    "['b', 'a'].sortBy(x, x) == ['a', 'b']",
    # operators
    "1 - -1 == 2 && 1 -1 == 0 && --1 == 1",
    "7 / -2 == -3 && -7 % 3 == -1 && 7u / 2u == 3u",
    "1.5 + 1.5 == 3.0 && 2 * 3 == 6 && 1 < 1.5 && 2u > 1 && 1 == dyn(1.0)",
    "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab' && [1] + [2] == [1, 2]",
    "'a' < 'b' && false < true && b'a' <= b'b'",
    "true || 1 / 0 == 1",
    "1 / 0 == 1 || true",
    "!(false && 1 / 0 == 1)",
    "true ? true : 1 / 0 == 1",
    "{'a': 1}.a == 1 && {'a': 1}['a'] == 1 && [1, 2][1] == 2",
    "{1: 'x'}[dyn(1.0)] == 'x'",
    "dyn('a') != dyn(1) && !(dyn('a') == dyn(1)) && null == null",
    "1 in [1, 2] && !('c' in ['a']) && dyn(1.0) in [1, 2]",
    r"""'\u00e9\n' == 'é' + '\n' && r'\n' == '\\n' && 'a\'b' == "a'b" && b'\xff'.size() == 1""",
    "size('é') == 1 && size(b'é') == 2 && {'a': 1}.size() == 1",
    "type(1) == int && type(quantity('1')) != string && type('') == string && type(type(1)) == type",
    # conversions
    "int('-5') == -5 && uint(3) == 3u && double('1.5') == 1.5 && int(2.9) == 2 && bool('t')",
    "string(1.0) == '1' && string(true) == 'true' && string(b'a') == 'a' && string(1e21) == '1e+21'",
    "string(duration('90s')) == '90s' && duration('1h30m').getMinutes() == 90",
    "duration('1.5s').getMilliseconds() == 1500",
    "timestamp('2024-02-29T12:00:00Z').getDayOfYear() == 59",
    "timestamp('2024-02-29T12:00:00Z').getHours('+02:00') == 14",
    "timestamp('2024-02-29T12:00:00.5Z') - timestamp('2024-02-29T12:00:00Z') == duration('500ms')",
    "string(timestamp('2024-01-01T01:00:00+01:00')) == '2024-01-01T01:00:00+01:00'",
    # strings
    "'tacocat'.charAt(3) == 'o' && 'hello'.indexOf('l', 3) == 3 && 'hello'.lastIndexOf('l') == 3",
    "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
    "' x '.trim() == 'x' && 'aXb'.lowerAscii() == 'axb' && 'aé'.upperAscii() == 'Aé'",
    "'hello'.replace('l', 'L', 1) == 'heLlo' && 'hello'.substring(1, 3) == 'el' && ['a', 'b'].join('-') == 'a-b'",
    "'%s is %d (%.2f) %x'.format([dyn('a'), 1, 1.5, 255]) == 'a is 1 (1.50) ff'",
    "'%s'.format([[dyn('a'), 1.5]]) == '[\"a\", 1.500000]' && '%.1e'.format([12.0]).startsWith('1.2')",
    "strings.quote('a\"b') == '\"a\\\\\"b\"'",
    "'abc123'.matches('[0-9]+$') && 'abc123'.find('[0-9]+') == '123'",
    "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b22'.findAll('[0-9]+', 1) == ['1']",
    # lists and sets
    "[1, 2].sum() == 3 && [3, 1].min() == 1 && ['a', 'b'].max() == 'b' && [1, 2].isSorted()",
    "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2",
    "[[1], [2]].flatten() == [1, 2] && [1, 2, 3].slice(1, 2) == [2] && [3, 1].sort() == [1, 3]",
    "lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1] && [1, 1, 2].distinct() == [1, 2]",
    "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 3])",
    # quantities and versions
    "quantity('200M') == quantity('0.2G') && quantity('50M').isLessThan(quantity('50Mi'))",
    "quantity('50k').add(20).sub(quantity('100k')).asInteger() == -49980",
    "sign(quantity('-1')) == -1 && !quantity('1.5').isInteger() && quantity('1.5').asApproximateFloat() == 1.5",
    "isQuantity('1Gi') && !isQuantity('1gi')",
    "semver('v01.1', true) == semver('1.1.0') && semver('1.2.3').minor() == 2 && isSemver('v1', true)",
    "!isSemver('v1.0.0') && semver('1.0.0-a').isLessThan(semver('1.0.0'))",
    # addresses, URLs, formats
    "ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && ip.isCanonical('::1') && !isIP('1.2.3')",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))",
    "string(cidr('10.1.2.3/8').masked()) == '10.0.0.0/8' && cidr('10.0.0.0/8').prefixLength() == 8",
    "type(ip('1.2.3.4')) == net.IP && ip('1.2.3.4') == ip('1.2.3.4')",
    "url('https://example.com:80/a?b=c&b=d').getPort() == '80' && isURL('/a') && !isURL('a')",
    "url('https://example.com:80/a?b=c&b=d').getQuery() == {'b': ['c', 'd']}",
    "!format.dns1123Label().validate('my-label').hasValue() && format.dns1123Label().validate('A').hasValue()",
    "format.named('uuid').hasValue() && !format.named('x').hasValue()",
]


@each_case("expression", TRUE)
def test_expressions_of_all_libraries_evaluate_to_true(expression: str) -> None:
    program = compile_expression(expression, features=FEATURES)
    assert program.matches(DEVICE)
    outcome = program.evaluate(DEVICE)
    assert outcome.matches is True
    assert outcome.cost <= program.estimated_cost


@each_case(
    ("expression", "message"),
    [
        ('device.attributes["gpu.example.com"].nothing == 1', "no such key: nothing"),
        ('device.attributes["unknown.example.com"].x', "no such key: x"),
        (
            'device.attributes["gpu.example.com"].model',
            "CEL result of type string could not be converted to bool",
        ),
        (
            'device.attributes["gpu.example.com"].model.exists(x, true)',
            "got 'types.String', expected iterable",
        ),
        ('device.attributes["gpu.example.com"].model < 1', "no such overload"),
        ('device.attributes["gpu.example.com"].index.startsWith("a")', "no such overload"),
        (
            'device.attributes["gpu.example.com"].index.isGreaterThan(semver("1.0.0"))',
            "no such overload: isGreaterThan(int, kubernetes.Semver)",
        ),
        ('device.attributes["gpu.example.com"].driverVersion == "570.0.1"', "no such overload"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("[1][3] == 1", "index out of bounds: 3"),
        ("{'a': 1}['b'] == 1", "no such key: b"),
        ("optional.none().value()", "optional.none() dereference"),
        ("'abc'.substring(5) == ''", "index out of range: 5"),
        ("[1].slice(0, 2) == []", "cannot slice(0, 2), list is length 1"),
        ("[].map(x, 1).max() == 1", "max called on empty list"),
        ("quantity('1x') == quantity('1')", "quantities must match the regular expression"),
        ("semver('1') == semver('1.0.0')", "No Major.Minor.Patch elements found"),
        ("quantity('2') == quantity('1').add(1)", "no such overload"),
        # The checker guesses the type of the elements.
        ("([] + dyn([1])).exists(v, double(v) == 1.0)", "no such overload: double(int)"),
        ("([1] + dyn(['a'])).exists(v, double(v) == 2.0)", "no such overload: double(string)"),
        ("ip('192.168.0.1.0').family() == 4", 'ParseAddr("192.168.0.1.0"): IPv4 address too long'),
        ("cidr('10.0.0.0/').prefixLength() == 1", 'bad bits after slash: ""'),
        ("lists.range(1000000).size() == 1", "operation cancelled: actual cost limit exceeded"),
    ],
)
def test_failing_expressions_have_the_expected_errors(expression: str, message: str) -> None:
    program = compile_expression(expression, features=FEATURES)
    with pytest.raises(EvaluationError) as caught:
        program.matches(DEVICE)
    assert message in str(caught.value)
    assert program.evaluate(DEVICE).error == str(caught.value)


def test_an_invalid_attribute_is_an_error_of_every_expression() -> None:
    device = CelDevice("d", {"a": DeviceAttribute(version="1.2"), "b": DeviceAttribute(int_=1)})
    program = compile_expression("true", features=FEATURES)
    with pytest.raises(EvaluationError, match="attribute a: parse semantic version: No Major"):
        program.matches(device)


def test_list_attributes_need_their_feature_gate_until_1_36() -> None:
    device = CelDevice("d", {"a": DeviceAttribute(ints=(1,))})
    program = compile_expression("true", features=frozenset(), kubernetes=V1_36)
    with pytest.raises(EvaluationError, match="attribute a: unsupported attribute value"):
        program.matches(device)
    assert compile_expression("true", features=FEATURES, kubernetes=V1_36).matches(device)
    for stored in (False, True):
        assert compile_expression("true", features=frozenset(), stored=stored).matches(device)


def test_includes_searches_long_lists_since_1_37() -> None:
    expression = f"{list(range(1, 60))}.includes(59)"
    program = compile_expression(expression, features=FEATURES, kubernetes=V1_36)
    with pytest.raises(
        EvaluationError, match="'includes' function cannot be applied to lists longer than 48"
    ):
        program.matches(DEVICE)
    program = compile_expression(expression, features=FEATURES)
    assert program.matches(DEVICE)
    # The cost is one for each element. The list is a constant.
    assert program.cost(DEVICE) == 59


def test_the_cost_limit_stops_an_evaluation() -> None:
    text = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    expression = "true"
    for level in range(7):
        expression = f"{text}.all(x{level}, {expression})"
    program = compile_expression(expression, features=FEATURES)
    assert program.estimated_cost > 1_000_000
    with pytest.raises(EvaluationError, match="operation cancelled: actual cost limit exceeded"):
        program.matches(DEVICE)
    assert program.cost(DEVICE) == 1_000_001


@pytest.mark.parametrize("version", [V1_37, V1_38], ids=str)
def test_a_call_whose_argument_fails_costs_nothing_since_1_38(version: Version) -> None:
    def cost(expression: str) -> int:
        return compile_expression(expression, features=(), kubernetes=version).cost(CelDevice("d"))

    missing = "device.attributes['d'].a"
    attribute = 4
    assert cost(f"{missing} < 1") == attribute + (1 if version < V1_38 else 0)
    assert cost(f"{missing} == 1") == attribute + 1
    assert cost(f"[{missing}] == [1]") == attribute + (11 if version < V1_38 else 1)
    # Before, the other argument is evaluated, too.
    assert cost(f"{missing} < size([{missing}])") == attribute + (16 if version < V1_38 else 0)


def test_sorting_a_list_with_a_failing_item_is_not_an_internal_error_since_1_38() -> None:
    expression = "[1].slice(device.attributes['d'].a, 1).sort() == [1]"
    for version, problem in ((V1_37, "internal error: "), (V1_38, "no such key: a")):
        found = compile_expression(expression, features=("DRAListTypeAttributes",), kubernetes=version)
        error = found.evaluate(CelDevice("d")).error
        assert error is not None
        assert error.startswith(problem)


def test_includes_needs_no_gate_since_1_38() -> None:
    with pytest.raises(CompileError, match="undeclared reference to 'includes'"):
        compile_expression("[1].includes(1)", features=(), kubernetes=V1_37, stored=False)
    found = compile_expression("[1].includes(1)", features=(), kubernetes=V1_38, stored=False)
    assert found.matches(CelDevice("d"))
