"""CEL over declared variables, for the validation rules of custom resources (``x-kubernetes-validations``).

>>> rule = compile_rule("self.size < 10", {"self": t.Type(t.Kind.STRUCT, "o")}, {"o": {"size": t.INT}})
>>> rule.evaluate([{"size": 3}], 1000)
(True, 3)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_shared.cel import types as t
from dra_shared.cel.attributes import LOCALS
from dra_shared.cel.checker import check
from dra_shared.cel.compiler import compile_tree
from dra_shared.cel.declarations import Functions
from dra_shared.cel.depth import room
from dra_shared.cel.environment import functions
from dra_shared.cel.errors import (
    CompileError,
    CostLimitExceeded,
    ErrorKind,
    EvaluationError,
    Issue,
    Panic,
    render_issues,
)
from dra_shared.cel.library.patterns import RegexError
from dra_shared.cel.parser import ParseFailed, parse
from dra_shared.cel.syntax import Comprehension, Expr, Ident, walk
from dra_shared.cel.types import Type
from dra_shared.cel.validators import validate

_TOO_COSTLY = "operation cancelled: actual cost limit exceeded"
_TOO_DEEP = "max recursion depth exceeded"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one evaluation: a value or the text of an error, and its cost."""

    value: Any
    error: str | None
    cost: int


class Rule:
    """A compiled expression over variables. It takes their values in the order of their declaration."""

    def __init__(self, tree: Expr, names: Sequence[str], known: Functions) -> None:
        self.output_type = tree.type
        #: The names of variables that the expression mentions, including local ones.
        self.mentioned = frozenset(node.name for node in walk(tree) if isinstance(node, Ident))
        #: True if the expression loops over a list or map.
        self.loops = any(isinstance(node, Comprehension) for node in walk(tree))
        code = compile_tree(tree, known, tracked=True, variables=names)
        self._run = code[0]
        self._rest = [None] * (code[1] - LOCALS - len(names))

    def run(self, values: Sequence[Any], limit: int) -> Result:
        """Evaluate the rule. A cost above `limit` is an error."""
        frame = [None, 0, limit, *values, *self._rest]
        try:
            return Result(self._run(frame), None, frame[1])
        except EvaluationError as error:
            return Result(None, str(error), frame[1])
        except Panic as panic:
            return Result(None, f"internal error: {panic}", frame[1])
        except CostLimitExceeded:
            return Result(None, _TOO_COSTLY, frame[1])
        except RecursionError:
            return Result(None, _TOO_DEEP, frame[1])

    def evaluate(self, values: Sequence[Any], limit: int) -> tuple[Any, int]:
        """Return the result and its cost.

        Raises:
            EvaluationError: with cel-go's message, also if the cost would exceed `limit`.
        """
        result = self.run(values, limit)
        if result.error is not None:
            raise EvaluationError(result.error)
        return result.value, result.cost


def compile_rule(
    expression: str,
    variables: dict[str, Type],
    structs: dict[str, dict[str, Type]],
    wanted: Type = t.BOOL,
) -> Rule:
    """Compile a rule. `structs` has the members of each struct type by its name.

    Raises:
        CompileError: with upstream's text.
    """
    rule = compile_over(expression, variables, structs)
    if rule.output_type != wanted:
        raise CompileError(f"must evaluate to {'a bool' if wanted == t.BOOL else 'a string'}")
    return rule


def compile_over(
    expression: str,
    variables: Mapping[str, Type],
    structs: Mapping[str, Mapping[str, Type]],
    *,
    patches: bool = False,
) -> Rule:
    """Compile an expression of any type. `patches`: it may create the objects and patches of mutating policies.

    Raises:
        CompileError: with upstream's text.
    """
    with room():
        return _compile(expression, variables, structs, functions(patches=patches))


def _compile(
    expression: str,
    variables: Mapping[str, Type],
    structs: Mapping[str, Mapping[str, Type]],
    known: Functions,
) -> Rule:
    try:
        tree, issues = check(parse(expression), known, {}, dict(variables), structs)
        issues = issues or validate(tree)
    except ParseFailed as error:
        raise _compile_error(expression, error.issues) from None
    except RecursionError:
        raise _compile_error(expression, [Issue(-1, _TOO_DEEP)]) from None
    if issues:
        raise _compile_error(expression, issues)
    try:
        return Rule(tree, list(variables), known)
    except (EvaluationError, Panic, RegexError) as error:
        raise CompileError(f"program instantiation failed: {error}", ErrorKind.INTERNAL) from None


def _compile_error(expression: str, issues: list[Issue]) -> CompileError:
    text = "compilation failed: " + render_issues(expression, issues)
    return CompileError(text, ErrorKind.INVALID, tuple(issues))
