"""Collects the rules of cluster roles that others select by label, such as ``view``, ``edit`` and ``admin``.

Mirrors pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go.
"""

from dra_shared.api.codec import to_builtins
from dra_shared.api.rbac import ClusterRole, PolicyRule
from dra_shared.api.resources import CLUSTER_ROLES
from dra_shared.client.rest import PatchType
from dra_shared.selectors import label_selector

from dra_controller.framework import Context, QueueController

_MANAGER = "clusterrole-aggregation-controller"


class ClusterRoleAggregationController(QueueController):
    """The clusterrole-aggregation-controller of kube-controller-manager."""

    name = _MANAGER
    queue_name = "ClusterRoleAggregator"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        roles = self.watch(CLUSTER_ROLES)
        self._roles = roles.store
        roles.add_handler(
            self._enqueue_aggregated, lambda _, new: self._enqueue_aggregated(new), self._enqueue_aggregated
        )

    def _enqueue_aggregated(self, _: ClusterRole) -> None:
        for role in self._roles.list():
            if role.aggregation_rule is not None:
                self.queue.add(role.metadata.name)

    async def reconcile(self, key: str) -> None:
        role = self._roles.get(key)
        if role is None or role.aggregation_rule is None:
            return
        rules = self._aggregate(role)
        if rules == (role.rules or ()):
            return
        body = {
            "apiVersion": CLUSTER_ROLES.api_version,
            "kind": CLUSTER_ROLES.kind,
            "metadata": {"name": key},
            "rules": [to_builtins(rule) for rule in rules],
        }
        await self._client.patch(
            CLUSTER_ROLES.skip_decoding,
            key,
            body,
            patch_type=PatchType.APPLY,
            field_manager=_MANAGER,
            force=True,
        )

    def _aggregate(self, role: ClusterRole) -> tuple[PolicyRule, ...]:
        assert role.aggregation_rule is not None
        others = sorted(self._roles.list(), key=lambda other: other.metadata.name)
        rules: list[PolicyRule] = []
        for selector in role.aggregation_rule.cluster_role_selectors:
            matching = label_selector(selector)
            for other in others:
                if other.metadata.name != role.metadata.name and matching.matches(other.metadata.labels):
                    rules += [rule for rule in other.rules or () if rule not in rules]
        return tuple(rules)
