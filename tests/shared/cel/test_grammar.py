"""Test the parser's tables, which are part of the package so that a service need not compute them at its start."""

import json

import pytest
from dra_shared.cel import grammar

_EXPRESSIONS = (
    "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100' && !has(a.b) || -1 - -2 > 3u",
    "a.?b[?c].orValue({'x': [1, ?y, 0x1F,],}) in d ? r'\\d' : b'\\x00'",
    "pkg.Type{field: 1.5e3, `odd-name`: null}.map(x, x % 2 != 0)",
)


def test_the_stored_parser_tables_were_computed_from_this_grammar_and_lark_version() -> None:
    stored = json.loads(grammar.TABLES.read_bytes())
    assert stored["digest"] == grammar.digest(grammar._grammar()), "run make tables"


def test_stored_tables_parse_like_computed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = grammar.lark_parser()
    monkeypatch.setattr(grammar, "digest", lambda text: "of another lark")
    computed = grammar.lark_parser.__wrapped__()
    for expression in _EXPRESSIONS:
        assert stored.parse(expression) == computed.parse(expression)
    assert {rule.origin.name for rule in stored.rules} == {rule.origin.name for rule in computed.rules}
