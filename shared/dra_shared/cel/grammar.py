"""The parser's tables: celpy's grammar, read by lark, with additions.

Only the grammar file of celpy is used; its interpreter is not imported. Changes: numbers carry no sign (``1
-1`` is a subtraction), strings and keywords follow cel-go's lexer, and optional selection, optional entries,
escaped identifiers, trailing commas and qualified struct names are supported.
"""

import functools
import hashlib
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

#: The parser's tables at the time of the release, with the grammar and the version of lark that they were
#: computed from.
TABLES = Path(__file__).with_name("tables.json")

_ESCAPE = r"\\[abfnrtv\"'\\?`]|\\[xX][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\[0-3][0-7][0-7]"

_RAW_LONG = r"[rR](?:\"\"\"[\s\S]*?\"\"\"|\'\'\'[\s\S]*?\'\'\')"
_LONG = rf"(?:{_RAW_LONG}|\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|\'\'\'(?:{_ESCAPE}|[^\\])*?\'\'\')"
_SHORT = rf"(?:[rR](?:\"[^\"\n\r]*\"|'[^'\n\r]*')|\"(?:{_ESCAPE}|[^\\\"\n\r])*\"|'(?:{_ESCAPE}|[^\\'\n\r])*')"

_RULES = {
    "unary": "member | unary_not member | unary_neg member | unary_not unary_neg member",
    "relation_in": "relation IN",
    "unary_not": '"!"+',
    "unary_neg": '"-"+',
    "member": "member_dot | member_dot_arg | member_index | member_object | primary",
    "member_dot": 'member "." ["?"] (IDENT | ESC_IDENT)',
    "member_index": 'member "[" ["?"] expr "]"',
    "member_object": 'member "{" [","] "}" | member "{" fieldinits [","] "}"',
    "list_lit": '"[" [","] "]" | "[" listinit [","] "]"',
    "map_lit": '"{" [","] "}" | "{" mapinits [","] "}"',
    "fieldinits": 'fieldinit | fieldinits "," fieldinit',
    "mapinits": 'mapinit | mapinits "," mapinit',
}
_NEW_RULES = """
listinit : optexpr | listinit "," optexpr
optexpr : ["?"] expr
fieldinit : ["?"] (IDENT | ESC_IDENT) ":" expr
mapinit : ["?"] expr ":" expr
"""
_TERMINALS = {
    "INT_LIT": r"/0x[0-9a-fA-F]+|[0-9]+/",
    "UINT_LIT": r"/(?:0x[0-9a-fA-F]+|[0-9]+)[uU]/",
    "FLOAT_LIT": r"/[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?/",
    "MLSTRING_LIT": f"/{_LONG}/",
    "STRING_LIT": f"/{_SHORT}/",
    "BYTES_LIT": f"/[bB](?:{_LONG}|{_SHORT})/",
    "BOOL_LIT": r"/(?:true|false)(?![_a-zA-Z0-9])/",
    "NULL_LIT": r"/null(?![_a-zA-Z0-9])/",
    "COMMENT": r"/\/\/[^\n]*/",
    "WHITESPACE": r"/[\t\n\f\r ]+/",
    "IN": r"/in(?![_a-zA-Z0-9])/",
    "IDENT": r"/(?!(?:in|true|false|null)(?![_a-zA-Z0-9]))[_a-zA-Z][_a-zA-Z0-9]*/",
    "ESC_IDENT": r"/`[a-zA-Z0-9_.\-\/ ]+`/",
}
_PRIORITIES = {
    "BYTES_LIT": 9,
    "MLSTRING_LIT": 9,
    "STRING_LIT": 8,
    "FLOAT_LIT": 7,
    "UINT_LIT": 6,
    "INT_LIT": 5,
    "BOOL_LIT": 5,
    "NULL_LIT": 5,
    "COMMENT": 5,
}


def _grammar() -> str:
    spec = importlib.util.find_spec("celpy")
    if spec is None or spec.origin is None:
        raise RuntimeError("cel-python, whose grammar is used, is not installed")
    text = Path(spec.origin).with_name("cel.lark").read_text(encoding="utf-8")
    # Keep only the definitions: remove comments and put each definition on one line.
    text = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\n\s*\|", " |", text)
    lines = []
    for line in text.splitlines():
        name, colon, _ = line.partition(":")
        name = name.strip()
        if colon and (name in _RULES):
            lines.append(f"{name} : {_RULES[name]}")
        elif colon and re.fullmatch(r"[A-Z_]+(\.\d+)?", name):
            continue
        else:
            lines.append(line)
    for name, pattern in _TERMINALS.items():
        priority = f".{_PRIORITIES[name]}" if name in _PRIORITIES else ""
        lines.append(f"{name}{priority} : {pattern}")
    return "\n".join(lines) + _NEW_RULES


@functools.cache
def lark_parser() -> Any:
    """Return the LALR parser, from the tables in the package. If they are of another grammar, compute them (slow)."""
    import lark

    grammar = _grammar()
    stored = json.loads(TABLES.read_bytes(), object_pairs_hook=_with_numbers)
    if stored["digest"] == digest(grammar):
        # The modules that lark's own generator writes call the same function.
        return lark.Lark._load_from_dict(stored["data"], stored["memo"])
    return build(grammar)


def build(grammar: str) -> Any:
    """Return the parser, with its tables computed from the grammar."""
    import lark

    return lark.Lark(
        grammar,
        parser="lalr",
        start="expr",
        keep_all_tokens=True,
        maybe_placeholders=False,
        propagate_positions=False,
    )


def tables() -> bytes:
    """Return the content of ``TABLES``. ``make tables`` writes it there."""
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    grammar = _grammar()
    data, memo = build(grammar).memo_serialize([TerminalDef, Rule])
    return json.dumps({"digest": digest(grammar), "data": data, "memo": memo}, separators=(",", ":")).encode()


def digest(grammar: str) -> str:
    """Return a digest that changes with the grammar and with the version of lark."""
    import lark

    return hashlib.sha256(f"{lark.__version__}\n{grammar}".encode()).hexdigest()


def _with_numbers(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    """Return the pairs as a dict, with numeric keys as integers. JSON stores them as strings."""
    return {int(key) if key.isdecimal() else key: value for key, value in pairs}
