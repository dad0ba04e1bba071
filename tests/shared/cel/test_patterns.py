"""Test patterns that Go reads differently from C++."""

import pytest
from dra_shared.cel.library.patterns import RegexError, compile_regex

from tests.support.cases import each_case


@each_case(
    ("pattern", "text"),
    [
        ("x{99999999999}", "invalid repeat count: `{99999999999}`"),
        ("(x{1,99999999999}?", "invalid repeat count: `{1,99999999999}`"),
        ("x{1001}?", "invalid repeat count: `{1001}`"),
        ("(?<!x)", "invalid named capture: `(?<!x)`"),
        ("[(?<=](?<=y>", "invalid named capture: `(?<=y>`"),
        ("(?P<é>a){2}{3}", "invalid named capture: `(?P<é>`"),
        (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
        (r"\p{foo}", r"invalid character class range: `\p{foo}`"),
        (r"\p{Old_Italic}", r"invalid character class range: `\p{Old_Italic}`"),
        (r"\pq", r"invalid character class range: `\pq`"),
        (r"\p{lo}(", r"missing closing ): `\p{lo}(`"),
        (r"a\C", r"invalid escape sequence: `\C`"),
        (r"(?u)\C", "invalid or unsupported Perl syntax: `(?u`"),
    ],
)
def test_patterns_that_go_rejects_are_rejected(pattern: str, text: str) -> None:
    with pytest.raises(RegexError) as caught:
        compile_regex(pattern)
    assert str(caught.value) == f"error parsing regexp: {text}"


@each_case(
    ("pattern", "text", "found"),
    [
        ("[{99999999999}]+", "a{9}", "{9}"),
        (r"\Q(?<!\C\E", r"a(?<!\C", r"(?<!\C"),
        (r"\\C", r"\C", r"\C"),
        ("x{099999999999}", "x{099999999999}", "x{099999999999}"),
        (r"\p{uppercase_letter}\p{lu}\p{Letter}", "aABc", "ABc"),
        (r"\p{greek}+", "aλμb", "λμ"),
        (r"\p{^lu}", "Aa", "a"),
        (r"\p{g-r_e ek}\pl[\Pl]", "aλμ1", "λμ1"),
    ],
)
def test_patterns_that_go_accepts_match(pattern: str, text: str, found: str) -> None:
    assert compile_regex(pattern).search(text).group() == found
