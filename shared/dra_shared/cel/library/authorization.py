"""The authorizer's functions.

Mirrors k8s.io/apiserver/pkg/cel/library/authz.go.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from dra_shared.cel.authorization import Authorizer, Decision, GroupCheck, PathCheck, Question, ResourceCheck
from dra_shared.cel.declarations import Estimate, Function, Node, function, overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.costs import LIST, STRING, STRUCT, size, size_range
from dra_shared.cel.ranges import Range, add, exactly, factor
from dra_shared.names import dns_label_name, dns_subdomain_name

#: The cost of one question to the authorizer.
_CHECK: Final = 350_000


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer, path)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if dns_subdomain_name(name, False):
        raise EvaluationError("Invalid service account name")
    if dns_label_name(namespace, False):
        raise EvaluationError("Invalid service account namespace")
    return Authorizer(f"system:serviceaccount:{namespace}:{name}", authorizer.authorize)


def _resource(group: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(group, resource)


def _check_path(check: PathCheck, verb: str) -> Decision:
    return check.authorizer.authorize(Question(check.authorizer.user, verb, path=check.path))


def _check_resource(check: ResourceCheck, verb: str) -> Decision:
    authorizer = check.group.authorizer
    question = Question(
        authorizer.user,
        verb,
        group=check.group.group,
        resource=check.resource,
        subresource=check.subresource,
        namespace=check.namespace,
        name=check.name,
    )
    return authorizer.authorize(question)


def _check(args: Sequence[Any], result: Any) -> int:
    return _CHECK


def _estimate_check(target: Node | None, args: list[Node]) -> Estimate:
    return Estimate(exactly(_CHECK))


def _selector_cost(length: Range) -> Range:
    """Return the cost of parsing a selector of that length. A requirement may be as short as two characters."""
    requirements = factor(factor(length, 0.5), LIST + STRUCT)
    return add(add(exactly(LIST), factor(length, STRING)), requirements)


def _selector(args: Sequence[Any], result: Any) -> int:
    return _selector_cost((size(args[1]), size(args[1])))[1]


def _estimate_selector(target: Node | None, args: list[Node]) -> Estimate | None:
    return Estimate(_selector_cost(size_range(args[0]))) if len(args) == 1 else None


def _ignore_selector(check: ResourceCheck, selector: str) -> ResourceCheck:
    """Return the check unchanged. Authorizers without support for selectors, such as RBAC, ignore them."""
    return check


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("allowed", overload(".decision_allowed(Decision) bool", lambda decision: decision.allowed)),
    function(
        "check",
        overload(".pathcheck_check(PathCheck, string) Decision", _check_path),
        overload(".resourcecheck_check(ResourceCheck, string) Decision", _check_resource),
        cost=_check,
        estimate=_estimate_check,
    ),
    function("errored", overload(".decision_errored(Decision) bool", lambda decision: decision.error != "")),
    function("error", overload(".decision_error(Decision) string", lambda decision: decision.error)),
    function(
        "fieldSelector",
        overload(".authorizer_fieldselector(ResourceCheck, string) ResourceCheck", _ignore_selector),
        cost=_selector,
        estimate=_estimate_selector,
    ),
    function("group", overload(".authorizer_group(Authorizer, string) GroupCheck", GroupCheck)),
    function(
        "labelSelector",
        overload(".authorizer_labelselector(ResourceCheck, string) ResourceCheck", _ignore_selector),
        cost=_selector,
        estimate=_estimate_selector,
    ),
    function(
        "namespace",
        overload(
            ".resourcecheck_namespace(ResourceCheck, string) ResourceCheck",
            lambda check, value: replace(check, namespace=value),
        ),
    ),
    function(
        "name",
        overload(
            ".resourcecheck_name(ResourceCheck, string) ResourceCheck",
            lambda check, value: replace(check, name=value),
        ),
    ),
    function("path", overload(".authorizer_path(Authorizer, string) PathCheck", _path)),
    function("reason", overload(".decision_reason(Decision) string", lambda decision: decision.reason)),
    function("resource", overload(".groupcheck_resource(GroupCheck, string) ResourceCheck", _resource)),
    function(
        "serviceAccount",
        overload(".authorizer_serviceaccount(Authorizer, string, string) Authorizer", _service_account),
    ),
    function(
        "subresource",
        overload(
            ".resourcecheck_subresource(ResourceCheck, string) ResourceCheck",
            lambda check, value: replace(check, subresource=value),
        ),
    ),
)
