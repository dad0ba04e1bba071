"""CEL over typed variables of one's own: the validation rules of custom resources (``x-kubernetes-validations``).

>>> rule = compile_rule("self.size < 10", {"self": t.Type(t.Kind.STRUCT, "o")}, {"o": {"size": t.INT}})
>>> rule.evaluate([{"size": 3}], 1000)
(True, 3)
"""

from collections.abc import Sequence
from typing import Any

from dra_shared.cel import types as t
from dra_shared.cel.checker import check
from dra_shared.cel.code import LOCALS
from dra_shared.cel.compiler import compile_tree
from dra_shared.cel.declarations import functions
from dra_shared.cel.errors import CompileError, ErrorKind, EvaluationError, Issue, render_issues
from dra_shared.cel.library.lists import CostLimitExceeded
from dra_shared.cel.library.strings import RegexError
from dra_shared.cel.parser import ParseFailed, parse
from dra_shared.cel.syntax import Expr, Ident, walk
from dra_shared.cel.types import Type
from dra_shared.cel.validators import validate

_TOO_COSTLY = "operation cancelled: actual cost limit exceeded"
_TOO_DEEP = "max recursion depth exceeded"


class Rule:
    """A compiled expression over variables, whose values it takes in the order in which they were declared."""

    def __init__(self, tree: Expr, names: Sequence[str]) -> None:
        self.output_type = tree.type
        #: The names that the expression mentions, of variables and of what is local to it.
        self.mentioned = frozenset(node.name for node in walk(tree) if isinstance(node, Ident))
        code = compile_tree(tree, functions(includes=True), tracked=True, variables=names)
        self._run = code[0]
        self._rest = [None] * (code[1] - LOCALS - len(names))

    def evaluate(self, values: Sequence[Any], limit: int) -> tuple[Any, int]:
        """The result and what it cost.

        Raises:
            EvaluationError: with cel-go's message, also where it would cost more than `limit`.
        """
        frame = [None, 0, limit, *values, *self._rest]
        try:
            return self._run(frame), frame[1]
        except CostLimitExceeded:
            raise EvaluationError(_TOO_COSTLY) from None
        except RecursionError:
            raise EvaluationError(_TOO_DEEP) from None


def compile_rule(
    expression: str,
    variables: dict[str, Type],
    structs: dict[str, dict[str, Type]],
    wanted: Type = t.BOOL,
) -> Rule:
    """The rule; `structs` has the members of each struct type by its name.

    Raises:
        CompileError: with upstream's text.
    """
    try:
        tree, issues = check(parse(expression), functions(includes=True), {}, dict(variables), structs)
        issues = issues or validate(tree)
    except ParseFailed as error:
        raise _failed(expression, error.issues) from None
    except RecursionError:
        raise _failed(expression, [Issue(-1, _TOO_DEEP)]) from None
    if issues:
        raise _failed(expression, issues)
    if tree.type != wanted:
        raise CompileError(f"must evaluate to {'a bool' if wanted == t.BOOL else 'a string'}")
    try:
        return Rule(tree, list(variables))
    except (EvaluationError, RegexError) as error:
        raise CompileError(f"program instantiation failed: {error}", ErrorKind.INTERNAL) from None


def _failed(expression: str, issues: list[Issue]) -> CompileError:
    text = "compilation failed: " + render_issues(expression, issues)
    return CompileError(text, ErrorKind.INVALID, tuple(issues))
