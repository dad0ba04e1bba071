"""Split a template into texts and actions, and an action into tokens. Upstream: text/template/parse/lex.go."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_ACTION = re.compile(
    r"\{\{(?P<left>-\s)?(?P<inner>(?:\"(?:[^\"\\\n]|\\.)*\"|`[^`]*`|(?!\}\}).)*?)(?P<right>\s-)?\}\}",
    re.DOTALL,
)
_COMMENT = re.compile(r"\{\{(?P<left>-\s)?\s*/\*(?P<inner>.*?)\*/\s*?(?P<right>\s-)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)
    |(?P<char>'(?:[^'\\\n]|\\.)+')
    |(?P<number>[+-]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?))
    |(?P<field>\.[A-Za-z_]\w*)
    |(?P<variable>\$\w*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<mark>:=|[=|(),.])""",
    re.VERBOSE,
)


class TemplateError(ValueError):
    """The template is malformed or cannot be executed. The message is Go's, without the position in the template."""


@dataclass(frozen=True)
class Token:
    """A token of an action. ``joined`` is set if no space separates it from the previous token."""

    kind: str
    text: str
    joined: bool


def cut(template: str) -> Iterator[str | list[Token]]:
    """Yield the texts, and the actions as lists of tokens.

    Raises:
        TemplateError: an action does not end, or has a character that cannot start a token.
    """
    at = 0
    trims = False
    while (start := template.find("{{", at)) >= 0:
        found = _COMMENT.match(template, start) or _ACTION.match(template, start)
        if found is None:
            raise TemplateError("unclosed action")
        text = template[at:start]
        text = text.lstrip() if trims else text
        yield text.rstrip() if found["left"] else text
        if found.re is _ACTION:
            yield list(_tokens(found["inner"]))
        at, trims = found.end(), bool(found["right"])
    yield template[at:].lstrip() if trims else template[at:]


def _tokens(action: str) -> Iterator[Token]:
    at = 0
    joined = False
    while at < len(action):
        found = _TOKEN.match(action, at)
        if found is None:
            raise TemplateError(f"unexpected {json.dumps(action[at])} in operand")
        at = found.end()
        if found.lastgroup == "space":
            joined = False
        else:
            yield Token(found.lastgroup or "", found[0], joined)
            joined = True
