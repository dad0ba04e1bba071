"""Test that the API server's engine names no kind. The rules of a kind are in its own package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dra_apiserver
from dra_apiserver.kinds import catalog

from tests.support.cases import each_case

ENGINE = Path(dra_apiserver.__file__).parent
# Words of paths and of RBAC rules that are not names of kinds here, and recorded cases that name their
# namespaces.
ALLOWED = {
    "access/impersonation.py": {"nodes", "serviceaccounts"},
    "access/requests.py": {"namespaces"},
    # The part of a path that names the namespace.
    "audit/policy.py": {"namespaces"},
    # A field of a policy's rules.
    "audit/policyfile.py": {"namespaces"},
    "conformance.py": {"namespaces"},
    # Names that a user may type into the workbench.
    "front/claimbench.py": {"ResourceClaim", "ResourceClaimTemplate"},
    # The number of nodes in a report.
    "front/insight.py": {"nodes"},
    # Faults have nodes as their targets.
    "handlers/faultnodes.py": {"nodes"},
    "handlers/routes.py": {"namespaces"},
    # Definitions are created before the objects that they define.
    "handlers/snapshots.py": {"CustomResourceDefinition"},
    # The templates of workloads become pods, which are admitted to a namespace.
    "manifests.py": {"Pod", "namespaces"},
    # Objects depend on their namespace, and pods and claims count for the same quotas.
    "rest/counted.py": {"namespaces", "pods", "resourceclaims"},
    # Every object is created in a namespace.
    "rest/namespacelifecycle.py": {"namespaces"},
    # A token of a service account names these objects. It is valid only while they exist.
    "serviceaccount/tokens.py": {"nodes", "pods", "secrets", "serviceaccounts"},
    # Admin access depends on a label of the namespace.
    "verdict.py": {"namespaces"},
    # A webhook may be a service, which is called at its endpoints.
    "webhook.py": {"endpoints", "endpointslices", "services"},
}


def names() -> frozenset[str]:
    """Return the names of resources and kinds, except words that often mean something else."""
    found = {name for kind in catalog.KINDS for name in (kind.plural, kind.kind)}
    return frozenset(found - {"events", "Event", "Binding", "roles", "Role", "nodes", "Node"}) | {
        "nodes",
        "roles",
    }


def modules() -> list[str]:
    return [
        str(path.relative_to(ENGINE))
        for path in sorted(ENGINE.rglob("*.py"))
        # `common` has rules that several packages of kinds share.
        if path.relative_to(ENGINE).parts[0] not in {"common", "kinds"}
    ]


def texts(path: Path) -> Iterator[str]:
    """Yield the string constants of a module that are not docstrings."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Expr)
    docstrings = {
        id(node.value)
        for parent in ast.walk(tree)
        for node in ast.iter_child_nodes(parent)
        if isinstance(parent, documented) and isinstance(node, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


@each_case("module", modules())
def test_the_engine_contains_no_name_of_a_kind(module: str) -> None:
    found = {text for text in texts(ENGINE / module) if text in names()}
    assert found <= ALLOWED.get(module, set())


def test_every_kind_of_the_schema_data_has_a_module() -> None:
    from dra_apiserver.kindkit.names import all_resources

    assert [(kind.group, kind.plural) for kind in catalog.KINDS] == all_resources()
