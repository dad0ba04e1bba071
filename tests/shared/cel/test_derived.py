"""Test the values of derived attributes against those of upstream's code in 1.37."""

import pytest
from dra_shared.api.resource import DeviceAttribute
from dra_shared.cel import CelDevice, EvaluationError, compile_expression

from tests.support.cases import each_case

_GATES = frozenset(("DRAConsumableCapacity", "DRAListTypeAttributes"))
_DEVICE = CelDevice(
    "d",
    {
        "model": DeviceAttribute(string="H100"),
        "strings": DeviceAttribute(strings=("a", "b")),
        "ints": DeviceAttribute(ints=(1, 2)),
        "bools": DeviceAttribute(bools=(True,)),
        "versions": DeviceAttribute(versions=("1.0.0",)),
    },
    {},
)


def _value(expression: str) -> DeviceAttribute:
    return compile_expression(expression, features=_GATES, derived=True).value(_DEVICE)


@each_case(
    ("element", "held"),
    [
        ('"a"', "string"),
        ("true", "bool"),
        ('semver("1.0.0")', "semver.Version"),
        ("1.5", "float64"),
        ("1u", "uint64"),
        ("null", "structpb.NullValue"),
        ('b"a"', "[]uint8"),
        ('duration("1s")', "time.Duration"),
        ('timestamp("2020-01-01T00:00:00Z")', "time.Time"),
        ("[1]", "[]ref.Val"),
        ('{"a": 1}', "map[ref.Val]ref.Val"),
        ("type(1)", "string"),
        ("optional.none()", "<nil>"),
        ("optional.of(1.5)", "float64"),
        ('quantity("1Gi")', "*resource.Quantity"),
        ('url("http://a/b")', "*url.URL"),
        ('ip("1.2.3.4")', "netip.Addr"),
        ('cidr("1.2.3.0/24")', "netip.Prefix"),
        ("format.dns1123Label()", "cel.Format"),
        ("device.attributes", "map[string]interface {}"),
        ('device.attributes["d"].model', "string"),
        ('device.attributes["d"].strings', "[]string"),
        ('device.attributes["d"].ints', "[]int64"),
        ('device.attributes["d"].bools', "[]bool"),
        ('device.attributes["d"].versions', "[]cel.Semver"),
    ],
)
def test_a_mixed_list_names_the_go_type_of_its_element(element: str, held: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        _value(f"[dyn(1), dyn({element})]")
    assert str(caught.value) == f"expected list element at index 1 to be int, got {held}"


@pytest.mark.parametrize(
    ("first", "name"), [('"a"', "string"), ("true", "bool"), ('semver("1.0.0")', "semver")]
)
def test_a_mixed_list_names_the_type_of_its_first_element(first: str, name: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        _value(f"[dyn({first}), dyn(1)]")
    assert str(caught.value) == f"expected list element at index 1 to be {name}, got int64"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("[dyn([1])]", "unsupported list element type: []ref.Val"),
        ("[dyn(optional.none())]", "unsupported list element type: <nil>"),
        ("dyn(1.5)", "unsupported CEL return type: float64"),
        ("[dyn(device.attributes)][0]", "unsupported CEL return type: map[string]interface {}"),
    ],
)
def test_results_that_cannot_be_attribute_values_are_errors(expression: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        _value(expression)
    assert str(caught.value) == message


@each_case(
    ("expression", "expected"),
    [
        ("dyn(optional.of(1))", DeviceAttribute(int_=1)),
        ("dyn(type(1))", DeviceAttribute(string="int")),
        ("[dyn(1), dyn(optional.of(2))]", DeviceAttribute(ints=(1, 2))),
        ('[dyn(type(1)), dyn("a")]', DeviceAttribute(strings=("int", "a"))),
        ('device.attributes["d"].versions', DeviceAttribute(versions=("1.0.0",))),
        ('device.attributes["d"].ints + [3]', DeviceAttribute(ints=(1, 2, 3))),
        ("[]", DeviceAttribute()),
    ],
)
def test_optional_values_and_wrapper_types_are_unwrapped(expression: str, expected: DeviceAttribute) -> None:
    assert _value(expression) == expected
