"""The Node authorizer: a kubelet reads what its pods need, and no more (plugin/pkg/auth/authorizer/node)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dra_shared.cel.authorization import Decision

from dra_apiserver.authorization.attributes import Attributes
from dra_apiserver.authorization.rules import Rule, allows
from dra_apiserver.kinds.kubelets import graph
from dra_apiserver.kinds.kubelets.graph import Graph
from dra_apiserver.kinds.kubelets.identity import node_of
from dra_apiserver.user import UserInfo

JsonObject = dict[str, Any]

_ALLOWED, _NO_OPINION = Decision(True), Decision(False)
_LEASES = "kube-node-lease"
_READS = frozenset({"get", "list", "watch"})
_OWN = frozenset({"get", "create", "update", "patch", "delete"})
_CHANGES = frozenset({"update", "patch"})


class NodeAuthorizer:
    """Decides for users that are nodes, and has no opinion of all others.

    `rules` are what all nodes may do: those of the role `system:node`.
    """

    def __init__(self, known: Graph, rules: Sequence[Rule]) -> None:
        self._graph = known
        self._rules = rules
        self._by_resource: dict[tuple[str, str], Callable[[str, Attributes], Decision]] = {
            ("", "secrets"): self._reads(graph.SECRET),
            ("", "configmaps"): self._reads(graph.CONFIG_MAP),
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._gets(graph.VOLUME),
            ("", "serviceaccounts"): self._account,
            ("", "nodes"): _node,
            ("", "pods"): self._pod,
            ("resource.k8s.io", "resourceclaims"): self._gets(graph.RESOURCE_CLAIM),
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("storage.k8s.io", "volumeattachments"): self._gets(graph.ATTACHMENT),
            ("storage.k8s.io", "csinodes"): _csi_node,
            ("coordination.k8s.io", "leases"): _lease,
        }

    def authorize(self, wanted: Attributes) -> Decision:
        """Whether the node may do it, or why it may not."""
        node = node_of(wanted.user)
        if node is None:
            return _NO_OPINION
        if not node:
            return _refused(f'unknown node for user "{wanted.user.name}"')
        if wanted.path is None:
            decide = self._by_resource.get((wanted.group, wanted.resource))
            if decide is not None:
                return decide(node, wanted)
        return _ALLOWED if any(allows(rule, wanted) for rule in self._rules) else _NO_OPINION

    def rules_of(self, user: UserInfo, namespace: str) -> tuple[list[Rule], list[JsonObject]]:
        """Nothing: what a node may do is no list of rules."""
        return [], []

    def unlisted(self, user: UserInfo) -> str:
        """That of nodes."""
        return "" if node_of(user) is None else "node authorizer does not support user rule resolution"

    def role_rules(self, reference: JsonObject, namespace: str) -> Sequence[Rule] | None:
        """None: it knows no roles."""
        return None

    def _related(self, node: str, kind: str, wanted: Attributes) -> Decision:
        if not wanted.name:
            return _refused("No Object name found")
        if self._graph.related(node, kind, wanted.namespace, wanted.name):
            return _ALLOWED
        return _unrelated(node)

    def _gets(self, kind: str) -> Callable[[str, Attributes], Decision]:
        def decide(node: str, wanted: Attributes) -> Decision:
            if wanted.verb != "get":
                return _refused("can only get individual resources of this type")
            if wanted.subresource:
                return _refused("cannot get subresource")
            return self._related(node, kind, wanted)

        return decide

    def _reads(self, kind: str) -> Callable[[str, Attributes], Decision]:
        def decide(node: str, wanted: Attributes) -> Decision:
            if wanted.verb not in _READS:
                return _refused("can only read resources of this type")
            if wanted.subresource:
                return _refused("cannot read subresource")
            if not wanted.namespace:
                return _refused("can only read namespaced object of this type")
            return self._related(node, kind, wanted)

        return decide

    def _claim(self, node: str, wanted: Attributes) -> Decision:
        if wanted.subresource != "status":
            return self._gets(graph.VOLUME_CLAIM)(node, wanted)
        if wanted.verb not in _CHANGES:
            return _refused("can only get/update/patch this type")
        return self._related(node, graph.VOLUME_CLAIM, wanted)

    def _account(self, node: str, wanted: Attributes) -> Decision:
        if wanted.verb == "get" and not wanted.subresource:
            return self._reads(graph.ACCOUNT)(node, wanted)
        if wanted.verb != "create" or not wanted.name:
            return _refused("can only create tokens for individual service accounts")
        if wanted.subresource != "token":
            return _refused("can only create token subresource of serviceaccount")
        return self._related(node, graph.ACCOUNT, wanted)

    def _slice(self, node: str, wanted: Attributes) -> Decision:
        if wanted.subresource:
            return _refused("cannot authorize ResourceSlice subresources")
        match wanted.verb:
            case "create":
                # NodeRestriction looks at the node's name: here is no object yet.
                return _ALLOWED
            case "get" | "update" | "patch" | "delete":
                return self._related(node, graph.SLICE, wanted)
            case "watch" | "list" | "deletecollection":
                if ("spec.nodeName", node) in wanted.fields:
                    return _ALLOWED
                return _refused(
                    "can only list/watch/deletecollection resourceslices with nodeName field selector"
                )
        return _refused(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, "
            "delete, deletecollection"
        )

    def _pod(self, node: str, wanted: Attributes) -> Decision:
        match wanted.subresource, wanted.verb:
            case "", "get":
                return self._related(node, graph.POD, wanted)
            case "", "list" | "watch":
                if ("spec.nodeName", node) in wanted.fields:
                    return _ALLOWED
                if wanted.name:
                    return self._related(node, graph.POD, wanted)
                return _refused("can only list/watch pods with spec.nodeName field selector")
            # NodeRestriction looks at whose pods they are.
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return _ALLOWED
        return _NO_OPINION


def _node(node: str, wanted: Attributes) -> Decision:
    match wanted.subresource, wanted.verb:
        # NodeRestriction looks at which node it is.
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return _ALLOWED
        case "", "get" | "list" | "watch":
            if wanted.name == node:
                return _ALLOWED
            what = f"'{wanted.name}'" if wanted.name else "all nodes"
            return _refused(f"node '{node}' cannot read {what}, only its own Node object")
    return _NO_OPINION


def _lease(node: str, wanted: Attributes) -> Decision:
    if wanted.verb not in _OWN:
        return _refused("can only get, create, update, patch, or delete a node lease")
    if wanted.namespace != _LEASES:
        return _refused(f'can only access leases in the "{_LEASES}" system namespace')
    if wanted.verb != "create" and wanted.name != node:
        return _refused("can only access node lease with the same name as the requesting node")
    return _ALLOWED


def _csi_node(node: str, wanted: Attributes) -> Decision:
    if wanted.verb not in _OWN:
        return _refused("can only get, create, update, patch, or delete a CSINode")
    if wanted.subresource:
        return _refused("cannot authorize CSINode subresources")
    if wanted.verb != "create" and wanted.name != node:
        return _refused("can only access CSINode with the same name as the requesting node")
    return _ALLOWED


def _refused(reason: str) -> Decision:
    return Decision(False, reason)


def _unrelated(node: str) -> Decision:
    return _refused(f"no relationship found between node '{node}' and this object")
