"""CEL as admission has it: its variables, its budgets and its errors (apiserver's plugin/cel)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dra_shared.cel import CompileError, EvaluationError
from dra_shared.cel import types as t
from dra_shared.cel.authorization import Authorizer, Decision, GroupCheck, Question, ResourceCheck
from dra_shared.cel.rules import Rule, compile_over
from dra_shared.cel.types import Kind, Type
from dra_shared.cel.values import LazyMap

from dra_apiserver.admission.dynamic.attributes import Attributes, Place
from dra_apiserver.errors import quote

JsonObject = dict[str, Any]

BUDGET: Final = 10_000_000
MATCH_BUDGET: Final = BUDGET // 4
_CALL_COST: Final = 1_000_000
_VARIABLES: Final = "kubernetes.variables"
_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


def _struct(name: str) -> Type:
    return Type(Kind.STRUCT, f"kubernetes.{name}")


_STRINGS: Final = t.list_of(t.STRING)
_TEXTS: Final = t.map_of(t.STRING, t.STRING)
_STRUCTS: Final[dict[str, Mapping[str, Type]]] = {
    "kubernetes.GroupVersionKind": dict.fromkeys(("group", "version", "kind"), t.STRING),
    "kubernetes.GroupVersionResource": dict.fromkeys(("group", "version", "resource"), t.STRING),
    "kubernetes.UserInfo": {
        "username": t.STRING,
        "uid": t.STRING,
        "groups": _STRINGS,
        "extra": t.map_of(t.STRING, _STRINGS),
    },
    "kubernetes.AdmissionRequest": {
        "kind": _struct("GroupVersionKind"),
        "resource": _struct("GroupVersionResource"),
        "subResource": t.STRING,
        "requestKind": _struct("GroupVersionKind"),
        "requestResource": _struct("GroupVersionResource"),
        "requestSubResource": t.STRING,
        "name": t.STRING,
        "namespace": t.STRING,
        "operation": t.STRING,
        "userInfo": _struct("UserInfo"),
        "dryRun": t.BOOL,
        "options": t.DYN,
    },
    "kubernetes.Namespace": {
        "metadata": _struct("NamespaceMetadata"),
        "spec": _struct("NamespaceSpec"),
        "status": _struct("NamespaceStatus"),
    },
    "kubernetes.NamespaceMetadata": {
        "name": t.STRING,
        "generateName": t.STRING,
        "namespace": t.STRING,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "UID": t.STRING,
        "creationTimestamp": t.TIMESTAMP,
        "deletionGracePeriodSeconds": t.INT,
        "deletionTimestamp": t.TIMESTAMP,
        "generation": t.INT,
        "resourceVersion": t.STRING,
        "finalizers": _STRINGS,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _STRINGS},
    "kubernetes.NamespaceStatus": {"conditions": t.list_of(_struct("NamespaceCondition")), "phase": t.STRING},
    "kubernetes.NamespaceCondition": {
        **dict.fromkeys(("status", "type", "message", "reason"), t.STRING),
        "lastTransitionTime": t.TIMESTAMP,
    },
}
_JSON_PATCH: Final[Mapping[str, Type]] = {
    **dict.fromkeys(("op", "path", "from"), t.STRING),
    "value": t.DYN,
}
OBJECT: Final = Type(Kind.STRUCT, "Object")
PATCHES: Final = t.list_of(Type(Kind.STRUCT, "JSONPatch"))


class _AnyFields(Mapping[str, Type]):
    """The members of an object of which no schema is known."""

    def __getitem__(self, key: str) -> Type:
        return t.DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1


class _Structs(Mapping[str, Mapping[str, Type]]):
    """The structs of policies that mutate: those of every policy, patches, and `Object.…` by any name."""

    def __init__(self, known: Mapping[str, Mapping[str, Type]]) -> None:
        self._known = {**known, "JSONPatch": _JSON_PATCH}

    def __getitem__(self, key: str) -> Mapping[str, Type]:
        if key == "Object" or key.startswith("Object."):
            return _AnyFields()
        return self._known[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class OutOfBudget(Exception):
    """No expression is evaluated any more; the message is upstream's."""

    def __init__(self) -> None:
        super().__init__(_OUT_OF_BUDGET)


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression, or the text of what is wrong with it."""

    text: str
    names: tuple[str, ...] = ()
    rule: Rule | None = None
    problem: str = ""
    internal: bool = False


@dataclass(slots=True)
class Environment:
    """What expressions may name. `variables` are those of the policy, by their names."""

    params: bool = False
    authorizer: bool = True
    composed: bool = True
    variables: dict[str, Type] = field(default_factory=dict)

    def compile(
        self,
        text: str,
        accepted: tuple[Type, ...] = (),
        *,
        patches: bool = False,
        authorizer: bool | None = None,
    ) -> Expression:
        """The expression, whose result must be of one of the accepted types where there are any."""
        asks = self.authorizer if authorizer is None else authorizer
        declared = dict(self._declared(asks))
        structs: Mapping[str, Mapping[str, Type]] = {**_STRUCTS, _VARIABLES: self.variables}
        try:
            rule = compile_over(text, declared, _Structs(structs) if patches else structs, patches=patches)
        except CompileError as error:
            return Expression(text, problem=error.text, internal=error.kind == "InternalError")
        if accepted and rule.output_type not in accepted:
            wanted = " ".join(kind.declared for kind in accepted)
            wanted = wanted if len(accepted) == 1 else f"one of [{wanted}]"
            return Expression(text, problem=f"must evaluate to {wanted} but got {rule.output_type.declared}")
        return Expression(text, tuple(declared), rule)

    def _declared(self, asks: bool) -> Iterator[tuple[str, Type]]:
        yield "object", t.DYN
        yield "oldObject", t.DYN
        yield "namespaceObject", _struct("Namespace")
        yield "request", _struct("AdmissionRequest")
        if self.params:
            yield "params", t.DYN
        if asks:
            yield "authorizer", t.AUTHORIZER
            yield "authorizer.requestResource", t.RESOURCE_CHECK
        if self.composed:
            yield "variables", _struct("variables")

    def add_variable(self, name: str, text: str) -> Expression:
        """Compile one of the policy's variables, and let later expressions name it."""
        made = self.compile(text)
        self.variables[name] = t.DYN if made.rule is None else _declared_type(made.rule.output_type)
        return made


def _declared_type(kind: Type) -> Type:
    """The type of a variable: lists and maps keep theirs, what has no plain type is dyn."""
    if kind.kind in (Kind.LIST, Kind.MAP):
        return Type(kind.kind, kind.name, *map(_declared_type, kind.params))
    return kind if kind in _PLAIN else t.DYN


_PLAIN: Final = frozenset(
    (t.ANY, t.BOOL, t.BYTES, t.DOUBLE, t.DURATION, t.INT, t.NULL, t.STRING, t.TIMESTAMP, t.UINT)
)


def _allow(question: Question) -> Decision:
    return Decision(True)


def _namespace(obj: JsonObject | None) -> JsonObject | None:
    if obj is None:
        return None
    hidden = ("managedFields", "ownerReferences", "selfLink")
    meta = {key: value for key, value in obj["metadata"].items() if key not in hidden}
    return {"metadata": meta, **{key: obj[key] for key in ("spec", "status") if key in obj}}


class Activation:
    """The values of the variables for one request, and what is left of the budget."""

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
        authorizer = Authorizer(attributes.request.user.name, _allow)
        resource = ResourceCheck(
            GroupCheck(authorizer, kind.group),
            kind.plural,
            target.subresource,
            attributes.namespace,
            attributes.name,
        )
        self._values: dict[str, Any] = {
            "object": attributes.versioned(attributes.obj, place),
            "oldObject": attributes.versioned(attributes.old, place),
            "namespaceObject": _namespace(namespace),
            "request": attributes.described(place),
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
        """The value, or why there is none.

        Raises:
            OutOfBudget: this and what came before cost too much.
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
    """What must hold besides the rules."""

    conditions: tuple[Expression, ...]
    ignore: bool

    def match(self, activation: Activation) -> tuple[bool, str]:
        """Whether they hold, or why that can't be said and matters."""
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
            return False, "" if self.ignore else aggregated(problems)
        return True, ""


def aggregated(problems: Iterable[str]) -> str:
    """Several errors' texts as one, each once."""
    texts = list(dict.fromkeys(problems))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
