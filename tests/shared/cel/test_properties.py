"""Test properties of every expression: both evaluators agree, and the estimated cost is an upper bound."""

import contextlib

from dra_shared.api.resource import DeviceAttribute, DeviceCapacity
from dra_shared.cel import CelDevice, CompileError, EvaluationError, compile_expression
from hypothesis import given
from hypothesis import strategies as st

FEATURES = frozenset(("DRAConsumableCapacity", "DRAListTypeAttributes"))
ATOMS = [
    "true",
    'device.attributes["d"].a == 1',
    'device.attributes["d"].s.startsWith("x")',
    'device.attributes["d"].l.exists(x, x > 1)',
    'device.attributes["d"].l.map(x, x + 1).all(x, x < 3)',
    'device.attributes["d"].?a.orValue(2) > 1',
    'has(device.attributes["d"].a)',
    'has(device.attributes["d"].?a.b)',
    '"s" in device.attributes["d"]',
    'device.capacity["d"].m.compareTo(quantity("1Gi")) > 0',
    'cel.bind(x, device.attributes["d"], x.a == 1 || x.s == "x")',
    "device.allowMultipleAllocations",
    '(device.allowMultipleAllocations ? device.attributes["d"].a : 7) < 5',
    '[1, 2].filter(x, x == device.attributes["d"].a).size() == 1',
]
EXPRESSIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.builds("({}) && ({})".format, inner, inner),
        st.builds("({}) || ({})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("({}) ? ({}) : ({})".format, inner, inner, inner),
    ),
    max_leaves=5,
)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["a", "s", "l"]),
    st.one_of(
        st.integers(0, 3).map(lambda value: DeviceAttribute(int_=value)),
        st.sampled_from(["x", "xyz", ""]).map(lambda value: DeviceAttribute(string=value)),
        st.lists(st.integers(0, 3), min_size=1, max_size=3).map(lambda v: DeviceAttribute(ints=tuple(v))),
    ),
)
CAPACITY = st.dictionaries(
    st.just("m"), st.sampled_from(["1Gi", "2Gi", "1"]).map(lambda v: DeviceCapacity(value=v))
)


@given(EXPRESSIONS, ATTRIBUTES, CAPACITY, st.booleans())
def test_cost_accounting_does_not_change_results(
    expression: str,
    attributes: dict[str, DeviceAttribute],
    capacity: dict[str, DeviceCapacity],
    multiple: bool,
) -> None:
    program = compile_expression(expression, features=FEATURES)
    device = CelDevice("d", attributes, capacity, multiple)
    answer: bool | str
    try:
        answer = program.matches(device)
    except EvaluationError as error:
        answer = str(error)
    outcome = program.evaluate(device)
    assert (outcome.error if outcome.error is not None else outcome.matches) == answer
    assert outcome.cost <= program.estimated_cost


@given(st.text(alphabet="ab1.'\"[](){}?:&|!-+=<> \\\n`é/", max_size=30))
def test_any_text_compiles_or_is_a_compile_error(text: str) -> None:
    with contextlib.suppress(CompileError):
        assert compile_expression(text, features=FEATURES).output_type in ("bool", "dyn")
