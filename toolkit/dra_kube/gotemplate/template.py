"""Execute a template on JSON. Upstream: text/template/exec.go."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from dra_kube.gotemplate.functions import CALLS, MISSING, describe, is_true
from dra_kube.gotemplate.syntax import Action, Argument, Literal, Node, Operand, Pipe, parse
from dra_kube.gotemplate.tokens import TemplateError

_MAX_DEPTH = 1000


class GoTemplate:
    """A template. Numbers of the data are float64, because kubectl decodes JSON without types for it.

    Raises:
        TemplateError: it is malformed.
    """

    def __init__(self, text: str) -> None:
        self._trees = parse(text)

    def text(self, data: Any) -> str:
        """Return the output of the template for the data.

        Raises:
            TemplateError: the data lacks a value that the template needs.
        """
        value = _with_floats(data)
        return "".join(_Execution(self._trees, value).run(self._trees[""], value))


def _with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_floats(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_with_floats(below) for below in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class _LoopEnd(Exception):
    def __init__(self, *, goes_on: bool) -> None:
        self.goes_on = goes_on


class _Execution:
    """One execution of a template: its variables, innermost last."""

    def __init__(self, trees: dict[str, list[Node]], data: Any, depth: int = 0) -> None:
        self._trees = trees
        self._variables: list[list[Any]] = [["$", data]]
        self._depth = depth

    def run(self, nodes: Sequence[Node], dot: Any) -> Iterator[str]:
        """Yield the output of the nodes."""
        for node in nodes:
            if isinstance(node, str):
                yield node
            elif node.name in ("break", "continue"):
                raise _LoopEnd(goes_on=node.name == "continue")
            else:
                yield from self._action(node, dot)

    def _action(self, action: Action, dot: Any) -> Iterator[str]:
        if action.name == "template":
            yield from self._template(action, dot)
            return
        assert action.pipe is not None
        if not action.name:
            value = self._pipe(action.pipe, dot)
            if not action.pipe.variables:
                yield describe(value)
            return
        mark = len(self._variables)
        if action.name == "range":
            yield from self._range(action, dot)
        else:
            value = self._pipe(action.pipe, dot)
            inner = value if action.name == "with" else dot
            yield from self.run(action.body, inner) if is_true(value) else self.run(action.otherwise, dot)
        del self._variables[mark:]

    def _template(self, action: Action, dot: Any) -> Iterator[str]:
        if action.target not in self._trees:
            raise TemplateError(f"template {json.dumps(action.target)} not defined")
        if self._depth >= _MAX_DEPTH // 10:
            raise TemplateError(f"exceeded maximum template depth ({_MAX_DEPTH})")
        value = self._pipe(action.pipe, dot) if action.pipe else None
        yield from _Execution(self._trees, value, self._depth + 1).run(self._trees[action.target], value)

    def _range(self, action: Action, dot: Any) -> Iterator[str]:
        pipe = action.pipe
        assert pipe is not None
        value = self._pipe(Pipe(pipe.commands), dot)
        items = _items(value)
        if not items:
            yield from self.run(action.otherwise, dot)
            return
        mark = len(self._variables)
        for key, item in items:
            names = pipe.variables
            values = [item] if len(names) == 1 else [key, item]
            for name, given in zip(names, values, strict=False):
                self._set(name, given, declares=pipe.declares)
            try:
                yield from self.run(action.body, item)
            except _LoopEnd as end:
                if not end.goes_on:
                    break
            finally:
                del self._variables[mark:]

    def _pipe(self, pipe: Pipe, dot: Any) -> Any:
        value: Any = None
        for place, command in enumerate(pipe.commands):
            value = self._command(command, dot, [value] if place else [])
        for name in pipe.variables:
            self._set(name, value, declares=pipe.declares)
        return value

    def _set(self, name: str, value: Any, *, declares: bool) -> None:
        if declares:
            self._variables.append([name, value])
        else:
            self._find(name)[1] = value

    def _find(self, name: str) -> list[Any]:
        found: list[Any] | None = next(
            (variable for variable in reversed(self._variables) if variable[0] == name), None
        )
        if found is not None:
            return found
        raise TemplateError(f"undefined variable {json.dumps(name)}")

    def _command(self, command: Sequence[Argument], dot: Any, final: list[Any]) -> Any:
        first, *arguments = command
        if isinstance(first, Operand) and isinstance(first.of, str) and first.of[0] not in ".$":
            return self._call(first.of, arguments, dot, final)
        if arguments or final:
            raise TemplateError(f"can't give argument to non-function {_render(first)}")
        if isinstance(first, Literal) and first.value is None:
            raise TemplateError("nil is not a command")
        return self._value(first, dot)

    def _call(self, name: str, arguments: Sequence[Argument], dot: Any, final: list[Any]) -> Any:
        if name in ("and", "or"):
            if not arguments and not final:
                raise TemplateError(f"wrong number of args for {name}: want at least 1 got 0")
            value: Any = None
            for argument in arguments:
                value = self._value(argument, dot)
                if is_true(value) == (name == "or"):
                    return value
            return final[0] if final else value
        values = [self._value(argument, dot) for argument in arguments] + final
        try:
            return CALLS[name](*values)
        except TypeError as error:
            raise TemplateError(f"wrong number of args for {name}") from error
        except TemplateError as error:
            raise TemplateError(f"error calling {name}: {error}") from error

    def _value(self, argument: Argument, dot: Any) -> Any:
        if isinstance(argument, Literal):
            return argument.value
        if isinstance(argument.of, Pipe):
            value = self._pipe(argument.of, dot)
        elif argument.of == ".":
            value = dot
        elif argument.of.startswith("$"):
            value = self._find(argument.of)[1]
        else:
            return self._call(argument.of, [], dot, [])
        for field in argument.fields:
            value = _field(value, field)
        return value


def _field(value: Any, name: str) -> Any:
    if value is MISSING:
        return MISSING
    if value is None:
        raise TemplateError(f"nil pointer evaluating interface {{}}.{name}")
    if not isinstance(value, dict):
        raise TemplateError(f"can't evaluate field {name} in type interface {{}}")
    return value.get(name, MISSING)


def _items(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return [(key, value[key]) for key in sorted(value)]
    if isinstance(value, list):
        return list(enumerate(value))
    if value is MISSING or value is None:
        return []
    if isinstance(value, int) and not isinstance(value, bool):
        return [(number, number) for number in range(value)]
    raise TemplateError(f"range can't iterate over {describe(value)}")


def _render(argument: Argument) -> str:
    if isinstance(argument, Literal):
        return "nil" if argument.value is None else json.dumps(argument.value)
    start = "(…)" if isinstance(argument.of, Pipe) else argument.of
    return start.removesuffix("." if argument.fields else "") + "".join(
        f".{field}" for field in argument.fields
    )
