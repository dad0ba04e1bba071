"""The tables of docs/kubernetes.md: how completely each kind is validated, and the reasons to keep kinds that no
service uses.
"""

import pkgutil
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from dra_apiserver import kinds as rooms
from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds.catalog import KINDS
from dra_shared.api import resources

_ROOT = Path(__file__).parents[2]
_SERVICES = {
    "scheduler": "services/scheduler/dra_scheduler",
    "controllers": "services/controller/dra_controller",
    "node agent": "services/node-agent/dra_node_agent",
}
# Functions that give a resource in the version that a Kubernetes has.
_FUNCTIONS = {"POD_GROUPS": "pod_groups"}
# Kinds that the API server reads to answer requests for others (admission, authorization, tokens, eviction, proxies),
# or derives from others.
_API_SERVER = frozenset(
    [
        "apiservices",
        "customresourcedefinitions",
        "endpoints",
        "endpointslices",
        "ingressclasses",
        "ipaddresses",
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
        "servicecidrs",
        "services",
        "storageclasses",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
        "workloads",
    ]
)


def table(kinds: Sequence[Kind] = KINDS) -> str:
    """Return the first table in Markdown."""
    head = [
        "| kind | validation | status | defaults | warnings | admission | acted on by |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(f"| {' | '.join(_row(kind))} |" for kind in _sort_kinds(kinds))])


def reasons(kinds: Sequence[Kind] = KINDS) -> str:
    """Return the table of the kinds that no service uses, in Markdown, with the reasons from their rooms."""
    given = dict(_reasons())
    rows = [
        f"| `{kind.qualified_name}` | {given.pop(kind.qualified_name)} |"
        for kind in _sort_kinds(kinds)
        if kind.is_stored and not any(_acting_services(kind))
    ]
    assert not given, f"services act on {', '.join(given)}"
    return "\n".join(["| kind | reason |", "|---|---|", *rows])


def _reasons() -> Iterator[tuple[str, str]]:
    """Return the kinds that the first lines of the rooms name, with the reasons."""
    for room in pkgutil.iter_modules(rooms.__path__):
        if room.ispkg and find_spec(f"{rooms.__name__}.{room.name}.kinds"):
            module = import_module(f"{rooms.__name__}.{room.name}.kinds")
            for name, reason in re.findall(r"^\* ([a-z0-9.]+): (.*)$", module.__doc__ or "", re.MULTILINE):
                assert name in {kind.qualified_name for kind in module.KINDS}
                yield name, reason


def _sort_kinds(kinds: Sequence[Kind]) -> list[Kind]:
    return sorted(kinds, key=lambda kind: (kind.group != "resource.k8s.io", kind.group, kind.plural))


def _row(kind: Kind) -> Iterator[str]:
    yield f"`{kind.qualified_name}`"
    if not kind.is_stored:
        yield "answered, not stored"
    else:
        yield _rules(kind, "")
    yield _rules(kind, "status") if kind.has_status else "–"
    yield "own" if kind.default else "–"
    yield "own" if kind.warnings else "–"
    plugins = (*kind.admission.mutating, *kind.admission.validating)
    yield ", ".join(dict.fromkeys(name for name, _ in plugins)) or "–"
    yield ", ".join(_acting_services(kind)) or "–"


def _rules(kind: Kind, subresource: str) -> str:
    return "metadata" if type(kind.strategies[subresource]) is GenericStrategy else "own"


def _acting_services(kind: Kind) -> Iterator[str]:
    """Return the services that use the kind. Clients are found by the typed resource that their sources name."""
    if kind.plural in _API_SERVER:
        yield "API server"
    for name, folder in _SERVICES.items():
        names = [
            constant
            for constant, value in vars(resources).items()
            if isinstance(value, resources.Resource)
            and (value.group, value.plural) == (kind.group, kind.plural)
        ]
        words = [word for constant in names for word in (constant, _FUNCTIONS.get(constant, constant))]
        if not _words(_ROOT / folder).isdisjoint(words):
            yield name


@cache
def _words(folder: Path) -> frozenset[str]:
    return frozenset(word for path in folder.rglob("*.py") for word in re.findall(r"\w+", path.read_text()))
