"""The Python API, from its signatures and docstrings: ``dralab.World``, ``dralab.testing`` and ``dralab.driver``."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import dralab
import dralab.driver
import dralab.testing
from dra_testing import plugin

from tools.reference.markdown import Page


def page() -> Page:
    """Return the page with all classes, their public members, and pytest's fixtures."""
    parts = ["## dralab", _text(dralab)]
    for name in dralab.__all__:
        thing = getattr(dralab, name)
        if inspect.isclass(thing):
            parts += _class(thing)
    parts += ["## dralab.testing", _text(dralab.testing)]
    for name in dralab.testing.__all__:
        parts += _class(getattr(dralab.testing, name))
    parts += ["## dralab.driver", _text(dralab.driver)]
    for name in dralab.driver.__all__:
        thing = getattr(dralab.driver, name)
        if inspect.isclass(thing):
            parts += _class(thing)
        elif inspect.isfunction(thing):
            parts += _function(name, thing)
    parts += ["## pytest", _text(plugin)]
    return Page(
        "reference/python.md",
        "Python API",
        "The classes that programs and tests use. By example: [Testing with dralab](../testing-with-dralab.md), "
        "[Plans](../plan.md), [Writing a driver](../writing-a-driver.md).",
        "\n\n".join(parts),
    )


def _class(thing: type[Any]) -> Iterator[str]:
    yield f"### {thing.__name__}"
    yield _text(thing)
    if _has_own_init(thing):
        yield _code(f"{thing.__name__}{_signature(thing.__init__)}")
    for name, member in vars(thing).items():
        if not name.startswith("_"):
            yield from _member(name, member)


def _function(name: str, thing: Any) -> Iterator[str]:
    yield f"### {name}"
    yield _code(f"{name}{_signature(thing)}")
    yield _text(thing)


def _has_own_init(thing: type[Any]) -> bool:
    return "__init__" in vars(thing) and not issubclass(thing, BaseException)


def _member(name: str, member: Any) -> Iterator[str]:
    about: Any
    if isinstance(member, property):
        returned = inspect.signature(member.fget).return_annotation if member.fget else ""
        shown, about = f"{name}: {_annotation(returned)}", member.fget
    elif isinstance(member, classmethod | staticmethod) or inspect.isfunction(member):
        function = getattr(member, "__func__", member)
        kind = "async " if inspect.iscoroutinefunction(function) else ""
        kind = "classmethod " if isinstance(member, classmethod) else kind
        shown, about = f"{kind}{name}{_signature(function)}", function
    else:
        return
    if inspect.getdoc(about):
        yield f"#### {name}"
        yield _code(shown)
        yield _text(about)


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    shown = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    short = [
        one.replace(annotation=_Annotation(one.annotation)) if one.annotation is not one.empty else one
        for one in shown
    ]
    returned = signature.return_annotation
    text = str(signature.replace(parameters=short, return_annotation=signature.empty))
    return text if returned in (signature.empty, None) else f"{text} -> {_annotation(returned)}"


class _Annotation:
    """A type that is written in a short form."""

    def __init__(self, annotation: Any) -> None:
        self._text = _annotation(annotation)

    def __repr__(self) -> str:
        return self._text


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text)


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _text(thing: Any) -> str:
    """Return a docstring as Markdown: its sections become lists, its examples blocks of code."""
    lines = []
    text = inspect.getdoc(thing) or ""
    for part in text.replace("``", "`").split("\n\n"):
        first, *rest = part.split("\n")
        if first in ("Raises:", "Args:", "Yields:", "Returns:"):
            lines.append(f"**{first.rstrip(':')}**\n\n" + "\n".join(_entries(rest)))
        elif part.startswith("    "):
            lines.append(f"```python\n{inspect.cleandoc(part)}\n```")
        else:
            lines.append(part.removesuffix(":") if part.endswith("::") else part)
    return "\n\n".join(lines)


def _entries(lines: list[str]) -> Iterator[str]:
    for line in lines:
        name, colon, about = line.strip().partition(": ")
        nested = len(line) - len(line.lstrip()) > 4
        yield f"* `{name}`: {about}" if colon and not nested else f"  {line.strip()}"
