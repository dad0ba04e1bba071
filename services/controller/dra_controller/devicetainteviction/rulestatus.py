"""The EvictionInProgress condition of a DeviceTaintRule.

Mirrors pkg/controller/devicetainteviction/device_taint_eviction.go.
"""

from dra_shared.api.meta import Condition
from dra_shared.api.taintrule import DeviceTaintRule
from dra_shared.taints import NO_EXECUTE, NONE
from msgspec.structs import replace

from dra_controller.devicetainteviction.state import EvictionState

EVICTION_IN_PROGRESS = "EvictionInProgress"
_ONCE = (
    "if the effect was NoExecute. This information will not be updated again. "
    "Recreate the DeviceTaintRule to trigger an update."
)


def find(rule: DeviceTaintRule) -> Condition | None:
    """Return the present condition of the rule."""
    return next((entry for entry in rule.status.conditions if entry.type == EVICTION_IN_PROGRESS), None)


def condition(state: EvictionState, rule: DeviceTaintRule) -> Condition:
    """Return the condition as it should be, without a time."""
    effect = rule.spec.taint.effect
    status, message = "False", ""
    evicted = state.evicted_by_rule.get(rule.metadata.uid, 0)
    if effect == NO_EXECUTE:
        pods, namespaces = state.pending(rule)
        if pods:
            status, reason = "True", "PodsPendingEviction"
            needs = "1 pod needs" if pods == 1 else f"{pods} pods need"
            message = f"{needs} to be evicted in {_count_namespaces(namespaces)}."
        else:
            reason = "Completed" if evicted else "NotStarted"
    elif effect == NONE:
        reason = "NoEffect"
        message = _dry_run(state, rule)
    else:
        reason, message = "OtherEffect", "Eviction only happens for the NoExecute effect."
    if evicted:
        done = f"{_count_pods(evicted)} evicted since starting the controller."
        message = f"{message} {done}" if message else done
    return Condition(
        type=EVICTION_IN_PROGRESS,
        status=status,
        reason=reason,
        message=message,
        observed_generation=rule.metadata.generation or None,
    )


def _dry_run(state: EvictionState, rule: DeviceTaintRule) -> str:
    """Return the effect that the rule would have if its taint were NoExecute."""
    simulation = state.simulation()
    taint = replace(rule.spec.taint, effect=NO_EXECUTE)
    simulation.rule_changed(rule, replace(rule, spec=replace(rule.spec, taint=taint)))
    published, allocated = simulation.count_selected(rule)
    pods, namespaces = simulation.pending(rule)
    return (
        f"{_count_devices(published, 'published')} selected. {_count_devices(allocated, 'allocated')} selected. "
        f"{_count_pods(pods)} would be evicted in {_count_namespaces(namespaces)} {_ONCE}"
    )


def _count_pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def _count_devices(number: int, kind: str) -> str:
    return f"1 {kind} device" if number == 1 else f"{number} {kind} devices"


def _count_namespaces(number: int) -> str:
    return "1 namespace" if number == 1 else f"{number} different namespaces"
