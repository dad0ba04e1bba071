"""The authorizer's functions, and the one that patches have."""

from dataclasses import replace
from typing import Final

from dra_shared.cel.authorization import (
    Authorizer,
    Decision,
    GroupCheck,
    PathCheck,
    Question,
    ResourceCheck,
)
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library import Implementation
from dra_shared.names import dns_label_name, dns_subdomain_name


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


OVERLOADS: Final[dict[str, Implementation]] = {
    "authorizer_path": _path,
    "authorizer_group": GroupCheck,
    "authorizer_serviceaccount": _service_account,
    "groupcheck_resource": _resource,
    "resourcecheck_subresource": lambda check, value: replace(check, subresource=value),
    "resourcecheck_namespace": lambda check, value: replace(check, namespace=value),
    "resourcecheck_name": lambda check, value: replace(check, name=value),
    # Authorizers without selectors, as role-based ones are, take no notice of them.
    "authorizer_fieldselector": lambda check, value: check,
    "authorizer_labelselector": lambda check, value: check,
    "pathcheck_check": _check_path,
    "resourcecheck_check": _check_resource,
    "decision_errored": lambda decision: decision.error != "",
    "decision_error": lambda decision: decision.error,
    "decision_allowed": lambda decision: decision.allowed,
    "decision_reason": lambda decision: decision.reason,
    "string_jsonpatch_escapeKey_string": lambda key: key.replace("~", "~0").replace("/", "~1"),
}
