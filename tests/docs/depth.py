"""The table of docs/kubernetes.md: of each kind, how deep its rules go and which services act on it."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from dra_apiserver.kinds.catalog import KINDS
from dra_apiserver.kinds.common.generic import GenericStrategy
from dra_apiserver.kinds.kind import Kind
from dra_shared.api import resources

from tests.support.reference import REPOSITORY

_SERVICES = {
    "scheduler": "services/scheduler/dra_scheduler",
    "controllers": "services/controller/dra_controller",
    "node agent": "services/node-agent/dra_node_agent",
}
# Kinds that the API server reads to answer requests for others: admission, authorization, tokens, eviction, proxies.
_API_SERVER = frozenset(
    [
        "customresourcedefinitions",
        "endpoints",
        "endpointslices",
        "ingressclasses",
        "limitranges",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "namespaces",
        "nodes",
        "pods",
        "poddisruptionbudgets",
        "priorityclasses",
        "resourcequotas",
        "roles",
        "rolebindings",
        "clusterroles",
        "clusterrolebindings",
        "runtimeclasses",
        "secrets",
        "serviceaccounts",
        "services",
        "storageclasses",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
        "workloads",
    ]
)


def table(kinds: Sequence[Kind] = KINDS) -> str:
    """The table in Markdown."""
    head = [
        "| kind | validation | status | defaults | warnings | admission | acted on by |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(f"| {' | '.join(_row(kind))} |" for kind in _sorted(kinds))])


def _sorted(kinds: Sequence[Kind]) -> list[Kind]:
    return sorted(kinds, key=lambda kind: (kind.group != "resource.k8s.io", kind.group, kind.plural))


def _row(kind: Kind) -> Iterator[str]:
    yield f"`{kind.qualified_name}`"
    if not kind.stored:
        yield "answered, not stored"
    else:
        yield _rules(kind, "")
    yield _rules(kind, "status") if kind.has_status else "–"
    yield "own" if kind.default else "–"
    yield "own" if kind.warnings else "–"
    plugins = (*kind.mutating_admission, *kind.validating_admission)
    yield ", ".join(dict.fromkeys(name for name, _ in plugins)) or "–"
    yield ", ".join(_acting(kind)) or "–"


def _rules(kind: Kind, subresource: str) -> str:
    return "metadata" if type(kind.strategies[subresource]) is GenericStrategy else "own"


def _acting(kind: Kind) -> Iterator[str]:
    """The services that act on the kind: clients are found by the typed resource that their sources name."""
    if kind.plural in _API_SERVER:
        yield "API server"
    for name, folder in _SERVICES.items():
        names = [
            constant
            for constant, value in vars(resources).items()
            if isinstance(value, resources.Resource)
            and (value.group, value.plural) == (kind.group, kind.plural)
        ]
        if any(re.search(rf"\b{constant}\b", _sources(REPOSITORY / folder)) for constant in names):
            yield name


@cache
def _sources(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted(folder.rglob("*.py")))
