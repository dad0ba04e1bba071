"""The parser's tables: celpy's grammar, read by lark, with what it lacks added.

Only the grammar file of celpy is used, its interpreter is never imported. Amended: numbers carry no sign (``1 -1`` is a
subtraction), strings and keywords follow cel-go's lexer, and optional selection, optional entries, escaped identifiers,
trailing commas and qualified struct names are known.
"""

import functools
import importlib.util
import re
from pathlib import Path
from typing import Any

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
    # Only definitions count: comments go, and each definition comes to stand on one line.
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
    """The LALR parser (built once, on first use)."""
    import lark

    return lark.Lark(
        _grammar(),
        parser="lalr",
        start="expr",
        keep_all_tokens=True,
        maybe_placeholders=False,
        propagate_positions=False,
    )
