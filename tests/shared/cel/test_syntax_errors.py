"""Test that syntax errors have the places and texts of cel-go's parser."""

import pytest
from dra_shared.cel import CompileError, compile_expression

from tests.support.cases import each_case

OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


@each_case(
    ("text", "found"),
    [
        ("", [f"1:0: Syntax error: mismatched input '<EOF>' expecting {OPERAND}"]),
        (" ", [f"1:2: Syntax error: mismatched input '<EOF>' expecting {OPERAND}"]),
        ("1 )", ["1:3: Syntax error: extraneous input ')' expecting <EOF>"]),
        ("f)as", ["1:2: Syntax error: mismatched input ')' expecting <EOF>"]),
        ("tru[e", ["1:6: Syntax error: missing ']' at '<EOF>'"]),
        ("*ru", [f"1:1: Syntax error: extraneous input '*' expecting {OPERAND}"]),
        ("true.", ["1:6: Syntax error: no viable alternative at input '.'"]),
        ("5. == 1", ["1:4: Syntax error: no viable alternative at input '. =='"]),
        ("a.true", ["1:3: Syntax error: mismatched input 'true' expecting IDENTIFIER"]),
        ("(a).b{}", ["1:6: Syntax error: mismatched input '{' expecting <EOF>"]),
        ("a inb", ["1:3: Syntax error: extraneous input 'inb' expecting <EOF>"]),
        ("&t", ["1:1: Syntax error: token recognition error at: '&t'",
                f"1:3: Syntax error: mismatched input '<EOF>' expecting {OPERAND}"]),
        ("'abc", ["1:1: Syntax error: token recognition error at: ''abc'",
                  f"1:5: Syntax error: mismatched input '<EOF>' expecting {OPERAND}"]),
        ("b'\\400' == b''", ["1:2: Syntax error: token recognition error at: ''\\4'",
                             "1:5: Syntax error: mismatched input '00' expecting <EOF>",
                             "1:14: Syntax error: token recognition error at: '''"]),
        ("a.?", ["1:4: Syntax error: mismatched input '<EOF>' expecting {IDENTIFIER, ESC_IDENTIFIER}",
                 "1:4: unsupported ident kind"]),
        ("--", ["1:3: Syntax error: no viable alternative at input '-'",
                f"1:3: Syntax error: mismatched input '<EOF>' expecting {OPERAND}"]),
        ("(device.a || device.b[device.-driver].c)",
         ["1:30: Syntax error: no viable alternative at input '.-'",
          "1:37: Syntax error: mismatched input ']' expecting ')'",
          "1:40: Syntax error: extraneous input ')' expecting <EOF>"]),
        ("[has(1)].all(2, true) && in x", [
            "1:6: invalid argument to has() macro", "1:14: argument must be a simple name",
            f"1:26: Syntax error: extraneous input 'in' expecting {OPERAND}"]),
        ("{}.sortBy(x, x) || [1].all(__result__,", [
            "1:1: sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            "1:28: iteration variable overwrites accumulator variable",
            f"1:39: Syntax error: mismatched input '<EOF>' expecting {OPERAND}"]),
        ("[1].all(a + b + c, true) ) ", [
            "1:15: argument must be a simple name", "1:26: Syntax error: extraneous input ')' expecting <EOF>"]),
        ("f(1 --9223372036854775808 2", [
            "1:27: Syntax error: mismatched input '2' expecting ')'"]),
        ("f(--9223372036854775808 2", [
            "1:5: invalid int literal", "1:25: Syntax error: mismatched input '2' expecting ')'"]),
        ("m{a: has(1), `b`: has(2)} x.`c`", [
            "1:3: unsupported syntax: '`'", "1:10: invalid argument to has() macro",
            "1:27: Syntax error: mismatched input 'x' expecting <EOF>"]),
        ("has(as(1)", ["1:5: reserved identifier: as", "1:5: invalid argument to has() macro",
                       "1:10: Syntax error: missing ')' at '<EOF>'"]),
        ("has(. in x)", ["1:0: invalid argument to has() macro",
                         "1:7: Syntax error: no viable alternative at input '. in'",
                         "1:11: Syntax error: extraneous input ')' expecting <EOF>"]),
        ("while 1", ["1:1: reserved identifier: while", "1:7: Syntax error: extraneous input '1' expecting <EOF>"]),
        ("[92233720366854775807, d}", ["1:2: invalid int literal",
                                       "1:25: Syntax error: mismatched input '}' expecting {']', ','}"]),
    ],
)  # fmt: skip
def test_syntax_errors_equal_those_of_cel_go(text: str, found: list[str]) -> None:
    with pytest.raises(CompileError) as caught:
        compile_expression(text, features=frozenset())
    lines = caught.value.text.removeprefix("compilation failed: ").split("\n")
    assert [line.removeprefix("ERROR: <input>:") for line in lines if line.startswith("ERROR")] == found


@pytest.mark.parametrize("text", ["!-1 == 1", "1 in[1] + x", "[!-1.0.x]", "x.index"])
def test_well_formed_expressions_have_no_syntax_error(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_expression(text, features=frozenset())
    assert "Syntax error" not in caught.value.text


def test_the_number_of_syntax_errors_is_limited() -> None:
    with pytest.raises(CompileError) as caught:
        compile_expression("1 ) " * 60, features=frozenset())
    assert caught.value.text.count("ERROR") == 1
