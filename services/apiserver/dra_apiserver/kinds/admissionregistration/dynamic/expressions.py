"""Evaluate admission expressions: values, budgets and errors (apiserver's plugin/cel)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dra_shared.cel import EvaluationError
from dra_shared.cel.authorization import Authorizer, Decision, GroupCheck, Question, ResourceCheck
from dra_shared.cel.values import LazyMap
from dra_shared.jsontypes import JsonObject

from dra_apiserver.authorization import Attributes as Wanted
from dra_apiserver.errors import quote
from dra_apiserver.kinds.admissionregistration.dynamic.attributes import Attributes, Place
from dra_apiserver.kinds.admissionregistration.dynamic.environment import Expression
from dra_apiserver.user import UserInfo, service_account, service_account_groups

BUDGET: Final = 10_000_000
MATCH_BUDGET: Final = BUDGET // 4
_CALL_COST: Final = 1_000_000
_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


class OutOfBudget(Exception):
    """The cost budget is used up, so no more expressions are evaluated. The message is upstream's."""

    def __init__(self) -> None:
        super().__init__(_OUT_OF_BUDGET)


def _authorize(attributes: Attributes, question: Question) -> Decision:
    """Check authorization for an expression: for the request's user, or a service account that it names."""
    if attributes.authorizer is None:
        return Decision(True)
    user, account = attributes.request.user, service_account(question.user)
    if question.user != user.name and account is not None:
        user = UserInfo(question.user, service_account_groups(account[0]))
    return attributes.authorizer.authorize(
        Wanted(
            user,
            question.verb,
            question.group,
            question.resource,
            question.subresource,
            question.namespace,
            question.name,
            question.path or None,
        )
    )


def _namespace(obj: JsonObject | None) -> JsonObject | None:
    if obj is None:
        return None
    hidden = ("managedFields", "ownerReferences", "selfLink")
    meta = {key: value for key, value in obj["metadata"].items() if key not in hidden}
    return {"metadata": meta, **{key: obj[key] for key in ("spec", "status") if key in obj}}


class Activation:
    """The values of the variables for one request, and the remaining cost budget."""

    def __init__(
        self,
        attributes: Attributes,
        place: Place,
        variables: Mapping[str, Expression],
        *,
        params: JsonObject | None = None,
        namespace: JsonObject | None = None,
        budget: int = BUDGET,
    ) -> None:
        self.budget = budget
        self._spent = 0
        kind, target = attributes.target.kind, attributes.target
        authorizer = Authorizer(attributes.request.user.name, partial(_authorize, attributes))
        resource = ResourceCheck(
            GroupCheck(authorizer, kind.group),
            kind.plural,
            target.subresource,
            attributes.namespace,
            attributes.name,
        )
        self._values: dict[str, Any] = {
            "object": attributes.convert(attributes.obj, place),
            "oldObject": attributes.convert(attributes.old, place),
            "namespaceObject": _namespace(namespace),
            "request": attributes.describe(place),
            "params": params,
            "authorizer": authorizer,
            "authorizer.requestResource": resource,
            "variables": LazyMap({name: self._lazy(name, one) for name, one in variables.items()}),
        }

    def _lazy(self, name: str, expression: Expression) -> Callable[[], Any]:
        def compute() -> Any:
            if expression.rule is None:
                problem = f"composited variable {quote(name)} fails to compile: {expression.problem}"
                raise EvaluationError(problem)
            result = expression.rule.run(self._inputs(expression), _CALL_COST)
            self._spent += result.cost
            if result.error is not None:
                raise EvaluationError(f"composited variable {quote(name)} fails to evaluate: {result.error}")
            return result.value

        return compute

    def _inputs(self, expression: Expression) -> list[Any]:
        return [self._values[name] for name in expression.names]

    def evaluate(self, expression: Expression) -> tuple[Any, str]:
        """Return the value of the expression, or the error of its evaluation.

        Raises:
            OutOfBudget: the total cost exceeds the budget.
        """
        if expression.rule is None:
            return None, f"compilation error: {expression.problem}"
        self._spent = 0
        result = expression.rule.run(self._inputs(expression), _CALL_COST)
        self.budget -= self._spent
        if self.budget < 0 or result.cost > self.budget:
            raise OutOfBudget
        self.budget -= result.cost
        if result.error is not None:
            return None, f"expression '{expression.text}' resulted in error: {result.error}"
        return result.value, ""


@dataclass(frozen=True, slots=True)
class MatchConditions:
    """The conditions that must hold in addition to the rules."""

    conditions: tuple[Expression, ...]
    ignore: bool

    def match(self, activation: Activation) -> tuple[bool, str]:
        """Return whether the conditions hold, or the error of their evaluation unless it is ignored."""
        problems: list[str] = []
        try:
            for condition in self.conditions:
                value, problem = activation.evaluate(condition)
                if problem:
                    problems.append(problem)
                elif value is False:
                    return False, ""
        except OutOfBudget as error:
            return False, "" if self.ignore else str(error)
        if problems:
            return False, "" if self.ignore else join_problems(problems)
        return True, ""


def join_problems(problems: Iterable[str]) -> str:
    """Join the texts of several errors, each once."""
    texts = list(dict.fromkeys(problems))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
