"""Conditions in the status of pods."""

from dra_shared.api.pod import Pod, PodCondition


def patch_of(pod: Pod, condition: PodCondition) -> dict[str, object]:
    """A strategic merge patch of the pod's status that sets the condition, new ones behind those that there are."""
    types = [known.type for known in pod.status.conditions]
    if condition.type not in types:
        types.append(condition.type)
    return {
        "$setElementOrder/conditions": [{"type": name} for name in types],
        "conditions": [condition],
    }
