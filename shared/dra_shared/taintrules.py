"""DeviceTaintRules in different versions of Kubernetes: the version of the API, and whether they apply.

1.34 has no gate for rules, v1beta2 was added in 1.36 and v1 in 1.37. Mirrors the options of upstream's
``k8s.io/dynamic-resource-allocation/resourceslice/tracker``.
"""

from dataclasses import replace

from dra_shared.api.resources import DEVICE_TAINT_RULES, Resource
from dra_shared.api.taintrule import DeviceTaintRule
from dra_shared.features import FeatureGates
from dra_shared.version import V1_35, V1_36, V1_37, Version, release


def taint_rules(gates: FeatureGates) -> Resource[DeviceTaintRule] | None:
    """Return the resource of the rules; None if they do not apply."""
    needed = ["DRADeviceTaints"] if gates.version < V1_35 else ["DRADeviceTaints", "DRADeviceTaintRules"]
    if not all(gates.enabled(name) for name in needed):
        return None
    return replace(DEVICE_TAINT_RULES, version=_version(gates.version))


def can_select_by_class(kubernetes: Version) -> bool:
    """True if rules may also select by device class and expression (``taintcriteria``)."""
    return kubernetes < V1_35


def have_status(rules: Resource[DeviceTaintRule], kubernetes: Version) -> bool:
    """True if rules have a status, in which the controller reports evictions."""
    return release(kubernetes).serves(f"{rules.group}/{rules.version}", f"{rules.plural}/status")


def _version(kubernetes: Version) -> str:
    if kubernetes >= V1_37:
        return "v1"
    return "v1beta2" if kubernetes >= V1_36 else "v1alpha3"
