"""Compare standard CEL with Google's C++ implementation: the values, and whether there is an error at all."""

from typing import Any

import pytest
from cel_expr_python import cel
from dra_shared.cel import CelDevice, CompileError, EvaluationError, compile_expression
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.sampling import either

_ORACLE = cel.NewEnv()
_DEVICE = CelDevice("d", {}, {}, False)

_INTS = st.sampled_from(["0", "1", "-1", "2", "7", "9223372036854775807", "(-9223372036854775807 - 1)"])
_UINTS = st.sampled_from(["0u", "1u", "3u", "18446744073709551615u"])
_DOUBLES = st.sampled_from(["0.0", "1.0", "-2.5", "1e300", "0.1", "-0.0"])
_STRINGS = st.sampled_from(["''", "'a'", "'abc'", "'é'", "'12'", "'1.5'", "'true'", "'\\U0001f600'", '"a.c"'])
_BYTES = st.sampled_from(["b''", "b'a'", "b'\\xff'", "b'abc'"])


def _ints(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _INTS,
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/%"), inner),
        st.builds("(-{})".format, inner),
        st.builds("int({})".format, st.one_of(_UINTS, _DOUBLES, _STRINGS)),
        st.builds("size({})".format, st.one_of(_STRINGS, _BYTES)),
        st.builds("[{}, {}][{}]".format, inner, inner, inner),
        st.builds("{{1: {}, 2: {}}}[{}]".format, inner, inner, inner),
        st.builds("[{}, {}].map(x, x + {})[0]".format, inner, inner, inner),
        st.builds("({} > {} ? {} : {})".format, inner, inner, inner, inner),
    )


def _strings(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _STRINGS,
        st.builds("({} + {})".format, inner, inner),
        st.builds("string({})".format, st.one_of(_INTS, _UINTS, st.just("true"))),
        st.builds("string({})".format, _BYTES),
    )


_INT = st.recursive(_INTS, _ints, max_leaves=5)
_STRING = st.recursive(_STRINGS, _strings, max_leaves=4)
_UINT = st.one_of(
    _UINTS,
    st.builds("({} {} {})".format, _UINTS, st.sampled_from("+-*/%"), _UINTS),
    st.builds("uint({})".format, _INT),
)
_DOUBLE = st.one_of(
    _DOUBLES,
    st.builds("({} {} {})".format, _DOUBLES, st.sampled_from("+-*/"), _DOUBLES),
    st.builds("double({})".format, st.one_of(_INT, _STRINGS)),
)
_COMPARE = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


def _same(of: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("({} {} {})".format, of, _COMPARE, of)


_CONDITION = st.one_of(
    st.sampled_from(["true", "false"]),
    *(_same(of) for of in (_INT, _UINT, _DOUBLE, _STRING, _BYTES)),
    st.builds(
        "(dyn({}) {} dyn({}))".format,
        _INT,
        st.sampled_from(["<", "<=", ">", ">="]),
        st.one_of(_UINT, _DOUBLE, _STRING),
    ),
    st.builds("(dyn({}) == {})".format, _INT, st.one_of(_UINT, _DOUBLE, _STRING)),
    st.builds("{}.{}({})".format, _STRING, st.sampled_from(["startsWith", "endsWith", "contains"]), _STRING),
    st.builds("{}.matches({})".format, _STRING, st.sampled_from(["'a'", "'^a.c$'", "'[0-9]+'", "''"])),
    st.builds("({} in [{}, {}])".format, _INT, _INT, _INT),
    st.builds("({} in {{{}: true}})".format, _STRING, _STRING),
    st.builds("([{}, {}] == [{}, {}])".format, _INT, _INT, _INT, _INT),
    st.builds(
        "[{}, {}].{}(x, x > {})".format, _INT, _INT, st.sampled_from(["all", "exists", "exists_one"]), _INT
    ),
    st.builds("([{}, {}].filter(x, x >= {}) == [{}])".format, _INT, _INT, _INT, _INT),
    st.builds("(type({}) == {})".format, _INT, st.sampled_from(["int", "uint", "string"])),
    st.builds("bool({})".format, _STRINGS),
    st.builds("(type({}) == {})".format, _DOUBLE, st.sampled_from(["double", "type(1)"])),
)
_EXPRESSION = st.recursive(
    _CONDITION,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!{}".format, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    ),
    max_leaves=4,
)


def _theirs(expression: str) -> Any:
    try:
        value = _ORACLE.compile(expression).eval()
    except RuntimeError:
        return None
    return None if value.type().name() == "ERROR" else value.value()


def _ours(expression: str) -> Any:
    try:
        return compile_expression(expression, features=frozenset()).matches(_DEVICE)
    except CompileError as refused:
        # The Go implementation converts constants in advance, wherever they are.
        assume("program instantiation failed" not in str(refused))
        return None
    except EvaluationError as error:
        # Only in the Go implementation, ordering values that are not numbers is an error.
        assume("NaN values cannot be ordered" not in str(error))
        return None


@pytest.mark.slow
@settings(max_examples=either(300, few=50), deadline=None)
@given(_EXPRESSION)
def test_random_expressions_have_the_value_that_cel_go_gives(expression: str) -> None:
    assert _ours(expression) == _theirs(expression)
