"""The strategies of kinds that have one of their own: (group, plural, subresource) to strategy."""

from __future__ import annotations

from dra_apiserver.strategy import Strategy
from dra_apiserver.strategy.core import NamespaceStrategy, PodStatusStrategy, PodStrategy
from dra_apiserver.strategy.resource import (
    DeviceClassStrategy,
    DeviceTaintRuleStrategy,
    ResourceClaimStatusStrategy,
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
    ResourceSliceStrategy,
)

_RESOURCE = "resource.k8s.io"
_namespaces = NamespaceStrategy()
_taint_rules = DeviceTaintRuleStrategy()

STRATEGIES: dict[tuple[str, str, str], Strategy] = {
    ("", "namespaces", ""): _namespaces,
    ("", "namespaces", "finalize"): _namespaces,
    ("", "namespaces", "status"): _namespaces,
    ("", "pods", ""): PodStrategy(),
    ("", "pods", "status"): PodStatusStrategy(),
    (_RESOURCE, "deviceclasses", ""): DeviceClassStrategy(),
    (_RESOURCE, "devicetaintrules", ""): _taint_rules,
    (_RESOURCE, "devicetaintrules", "status"): _taint_rules,
    (_RESOURCE, "resourceclaims", ""): ResourceClaimStrategy(),
    (_RESOURCE, "resourceclaims", "status"): ResourceClaimStatusStrategy(),
    (_RESOURCE, "resourceclaimtemplates", ""): ResourceClaimTemplateStrategy(),
    (_RESOURCE, "resourceslices", ""): ResourceSliceStrategy(),
}
