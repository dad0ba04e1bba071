"""The Node authorizer: a kubelet may only read what its pods need (plugin/pkg/auth/authorizer/node)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dra_shared.cel.authorization import Decision
from dra_shared.jsontypes import JsonObject

from dra_apiserver.authorization.attributes import Attributes
from dra_apiserver.authorization.rules import allows
from dra_apiserver.kinds.kubelets import graph
from dra_apiserver.kinds.kubelets.graph import Graph
from dra_apiserver.kinds.kubelets.identity import node_of
from dra_apiserver.user import UserInfo

_ALLOWED, _NO_OPINION = Decision(True), Decision(False)
_LEASES = "kube-node-lease"
_READS = frozenset({"get", "list", "watch"})
_OWN = frozenset({"get", "create", "update", "patch", "delete"})
_CHANGES = frozenset({"update", "patch"})


class NodeAuthorizer:
    """Decides for users that are nodes, and has no opinion about others.

    `rules` are those of the role `system:node`, which apply to all nodes.
    """

    def __init__(self, known: Graph, rules: Sequence[JsonObject]) -> None:
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
        """Decide whether the node may do it, with the reason."""
        node = node_of(wanted.user)
        if node is None:
            return _NO_OPINION
        if not node:
            return _deny(f'unknown node for user "{wanted.user.name}"')
        if wanted.path is None:
            decide = self._by_resource.get((wanted.group, wanted.resource))
            if decide is not None:
                return decide(node, wanted)
        return _ALLOWED if any(allows(rule, wanted) for rule in self._rules) else _NO_OPINION

    def rules_of(self, user: UserInfo, namespace: str) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return nothing, because the permissions of a node cannot be listed as rules."""
        return [], []

    def explain_unlisted(self, user: UserInfo) -> str:
        """Return why the rules of nodes are incomplete."""
        return "" if node_of(user) is None else "node authorizer does not support user rule resolution"

    def role_rules(self, reference: JsonObject, namespace: str) -> Sequence[JsonObject] | None:
        """Return None, because this authorizer has no roles."""
        return None

    def _decide_by_relation(self, node: str, kind: str, wanted: Attributes) -> Decision:
        if not wanted.name:
            return _deny("No Object name found")
        if self._graph.is_related(node, kind, wanted.namespace, wanted.name):
            return _ALLOWED
        return _deny_unrelated(node)

    def _gets(self, kind: str) -> Callable[[str, Attributes], Decision]:
        def decide(node: str, wanted: Attributes) -> Decision:
            if wanted.verb != "get":
                return _deny("can only get individual resources of this type")
            if wanted.subresource:
                return _deny("cannot get subresource")
            return self._decide_by_relation(node, kind, wanted)

        return decide

    def _reads(self, kind: str) -> Callable[[str, Attributes], Decision]:
        def decide(node: str, wanted: Attributes) -> Decision:
            if wanted.verb not in _READS:
                return _deny("can only read resources of this type")
            if wanted.subresource:
                return _deny("cannot read subresource")
            if not wanted.namespace:
                return _deny("can only read namespaced object of this type")
            return self._decide_by_relation(node, kind, wanted)

        return decide

    def _claim(self, node: str, wanted: Attributes) -> Decision:
        if wanted.subresource != "status":
            return self._gets(graph.VOLUME_CLAIM)(node, wanted)
        if wanted.verb not in _CHANGES:
            return _deny("can only get/update/patch this type")
        return self._decide_by_relation(node, graph.VOLUME_CLAIM, wanted)

    def _account(self, node: str, wanted: Attributes) -> Decision:
        if wanted.verb == "get" and not wanted.subresource:
            return self._reads(graph.ACCOUNT)(node, wanted)
        if wanted.verb != "create" or not wanted.name:
            return _deny("can only create tokens for individual service accounts")
        if wanted.subresource != "token":
            return _deny("can only create token subresource of serviceaccount")
        return self._decide_by_relation(node, graph.ACCOUNT, wanted)

    def _slice(self, node: str, wanted: Attributes) -> Decision:
        if wanted.subresource:
            return _deny("cannot authorize ResourceSlice subresources")
        match wanted.verb:
            case "create":
                # NodeRestriction checks the node's name, because there is no object yet.
                return _ALLOWED
            case "get" | "update" | "patch" | "delete":
                return self._decide_by_relation(node, graph.SLICE, wanted)
            case "watch" | "list" | "deletecollection":
                if ("spec.nodeName", node) in wanted.fields:
                    return _ALLOWED
                return _deny(
                    "can only list/watch/deletecollection resourceslices with nodeName field selector"
                )
        return _deny(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, "
            "delete, deletecollection"
        )

    def _pod(self, node: str, wanted: Attributes) -> Decision:
        match wanted.subresource, wanted.verb:
            case "", "get":
                return self._decide_by_relation(node, graph.POD, wanted)
            case "", "list" | "watch":
                if ("spec.nodeName", node) in wanted.fields:
                    return _ALLOWED
                if wanted.name:
                    return self._decide_by_relation(node, graph.POD, wanted)
                return _deny("can only list/watch pods with spec.nodeName field selector")
            # NodeRestriction checks that the pods are the node's own.
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return _ALLOWED
        return _NO_OPINION


def _node(node: str, wanted: Attributes) -> Decision:
    match wanted.subresource, wanted.verb:
        # NodeRestriction checks that the node is the user.
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return _ALLOWED
        case "", "get" | "list" | "watch":
            if wanted.name == node:
                return _ALLOWED
            what = f"'{wanted.name}'" if wanted.name else "all nodes"
            return _deny(f"node '{node}' cannot read {what}, only its own Node object")
    return _NO_OPINION


def _lease(node: str, wanted: Attributes) -> Decision:
    if wanted.verb not in _OWN:
        return _deny("can only get, create, update, patch, or delete a node lease")
    if wanted.namespace != _LEASES:
        return _deny(f'can only access leases in the "{_LEASES}" system namespace')
    if wanted.verb != "create" and wanted.name != node:
        return _deny("can only access node lease with the same name as the requesting node")
    return _ALLOWED


def _csi_node(node: str, wanted: Attributes) -> Decision:
    if wanted.verb not in _OWN:
        return _deny("can only get, create, update, patch, or delete a CSINode")
    if wanted.subresource:
        return _deny("cannot authorize CSINode subresources")
    if wanted.verb != "create" and wanted.name != node:
        return _deny("can only access CSINode with the same name as the requesting node")
    return _ALLOWED


def _deny(reason: str) -> Decision:
    return Decision(False, reason)


def _deny_unrelated(node: str) -> Decision:
    return _deny(f"no relationship found between node '{node}' and this object")
