"""rbac.authorization.k8s.io/v1."""

from msgspec import field

from dra_shared.api.meta import LabelSelector, Object, Struct


class PolicyRule(Struct):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = field(default=(), name="nonResourceURLs")


class AggregationRule(Struct):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class ClusterRole(Object):
    rules: tuple[PolicyRule, ...] | None = None
    aggregation_rule: AggregationRule | None = None
