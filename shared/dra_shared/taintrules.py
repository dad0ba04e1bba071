"""DeviceTaintRules: in which version of the API they are read, and whether they count.

Both changed with Kubernetes: 1.34 has no gate of their own, v1beta2 came with 1.36 and v1 with 1.37. Mirrors what
upstream's ``k8s.io/dynamic-resource-allocation/resourceslice/tracker`` is given.
"""

from dataclasses import replace

from dra_shared.api.resources import DEVICE_TAINT_RULES, Resource
from dra_shared.api.taintrule import DeviceTaintRule
from dra_shared.features import FeatureGates
from dra_shared.version import V1_35, V1_36, V1_37, Version, release


def taint_rules(gates: FeatureGates) -> Resource[DeviceTaintRule] | None:
    """Where the rules are; None where they don't count."""
    needed = ["DRADeviceTaints"] if gates.version < V1_35 else ["DRADeviceTaints", "DRADeviceTaintRules"]
    if not all(gates.enabled(name) for name in needed):
        return None
    return replace(DEVICE_TAINT_RULES, version=_version(gates.version))


def select_by_class(kubernetes: Version) -> bool:
    """Whether rules may select by device class and expression, too (``taintcriteria``)."""
    return kubernetes < V1_35


def have_status(rules: Resource[DeviceTaintRule], kubernetes: Version) -> bool:
    """Whether rules have a status, where the controller says what it evicts."""
    return release(kubernetes).serves(f"{rules.group}/{rules.version}", f"{rules.plural}/status")


def _version(kubernetes: Version) -> str:
    if kubernetes >= V1_37:
        return "v1"
    return "v1beta2" if kubernetes >= V1_36 else "v1alpha3"
