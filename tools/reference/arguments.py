"""Describe a command's argparse options as Markdown."""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator

from tools.reference.markdown import code, plain, table

_HELP = (argparse._HelpAction,)


def arguments(
    parser: argparse.ArgumentParser, default: Callable[[argparse.Action], str] | None = None
) -> str:
    """Return the parser's positional words and options as Markdown. ``default`` formats the default of an option."""
    shown = [
        action
        for action in parser._actions
        if not isinstance(action, _HELP) and action.help != "==SUPPRESS=="
    ]
    words = [action for action in shown if not action.option_strings]
    options = [action for action in shown if action.option_strings]
    parts = []
    if words:
        parts.append(table(["argument", ""], ((code(_word(one)), _help(one)) for one in words)))
    if options:
        head, rows = (
            ["option", "default", ""],
            [[_flags(one), (default or _default)(one), _help(one)] for one in options],
        )
        if not any(row[1] for row in rows):
            head, rows = ["option", ""], [[row[0], row[2]] for row in rows]
        parts.append(table(head, rows))
    return "\n\n".join(parts)


def flag_table(flags: Iterable[argparse.Action]) -> str:
    """Return a table of flags for a page in docs/: flag, default, meaning with links to the pages that it names."""
    rows = ([", ".join(map(code, one.option_strings)), _default(one), add_links(_help(one))] for one in flags)
    return table(["flag", "default", "meaning"], rows)


def add_links(text: str) -> str:
    """Return a help text with code for flags, and links in place of the paths of pages."""
    text = re.sub(r"docs/([A-Za-z/-]+\.md)(#[a-z-]+)?", r"[\1](\1\2)", text)
    return re.sub(r"(?<![\w`-])(--[a-z-]+)", r"`\1`", text)


def usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage line of the command, without its options."""
    words = " ".join(_word(action) for action in parser._actions if not action.option_strings)
    return f"{parser.prog} {words} [OPTIONS]".replace("  ", " ")


def _word(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None and not action.metavar:
        name = "|".join(map(str, action.choices))
    return {"*": f"[{name}…]", "+": f"{name}…", "?": f"[{name}]"}.get(str(action.nargs), name)


def _flags(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper().replace('_', '-')}"
    if isinstance(action, argparse.BooleanOptionalAction):
        value = ""
    return ", ".join(f"`{flag}{value if flag.startswith('--') else ''}`" for flag in action.option_strings)


def _default(action: argparse.Action) -> str:
    value = action.default
    if value is None or value is False or str(value) in ("", "[]", "inf", argparse.SUPPRESS):
        return ""
    return code("on" if value is True else str(value))


def _help(action: argparse.Action) -> str:
    text = action.help or ""
    if action.choices is not None and action.option_strings:
        text += f" ({', '.join(_choices(action))})"
    return plain(text % {**vars(action), "prog": ""} if "%" in text else text)


def _choices(action: argparse.Action) -> Iterator[str]:
    return (str(choice) for choice in action.choices or ())
