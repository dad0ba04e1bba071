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


def may_taint(rule: DeviceTaintRule, kubernetes: Version) -> bool:
    """Whether a rule may taint devices.

    Rules of 1.34 may select by class or expression, too, which is not looked at here: they taint nothing, rather than
    everything else that they name. Later versions do not know these criteria, and go by the others.
    """
    selector = rule.spec.device_selector
    by_class = selector is not None and (selector.device_class_name is not None or bool(selector.selectors))
    return kubernetes >= V1_35 or not by_class


def have_status(rules: Resource[DeviceTaintRule], kubernetes: Version) -> bool:
    """Whether rules have a status, where the controller says what it evicts."""
    return release(kubernetes).serves(f"{rules.group}/{rules.version}", f"{rules.plural}/status")


def _version(kubernetes: Version) -> str:
    if kubernetes >= V1_37:
        return "v1"
    return "v1beta2" if kubernetes >= V1_36 else "v1alpha3"
