"""Patches of a pod's status (upstream's ``pkg/scheduler/util``, PatchPodStatus)."""

from dra_shared.api.pod import Pod, PodCondition


def condition_patch(pod: Pod, condition: PodCondition) -> dict[str, object]:
    """Return a strategic merge patch that sets the condition and keeps the order of the others."""
    types = [known.type for known in pod.status.conditions]
    if condition.type not in types:
        types.append(condition.type)
    return {
        "$setElementOrder/conditions": [{"type": name} for name in types],
        "conditions": [condition],
    }
