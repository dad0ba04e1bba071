"""Classify a pod's update by the changes that may affect its scheduling (upstream's ``framework/events.go``)."""

from dra_shared.api.pod import Pod

from dra_scheduler.framework.events import Action


def own_changes(old: Pod, new: Pod) -> Action:
    """Return the kinds of changes in the pod's update that may affect its own scheduling."""
    actions = Action(0)
    if old.metadata.labels != new.metadata.labels:
        actions |= Action.POD_LABEL
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions |= Action.POD_GATES
    if old.spec.tolerations != new.spec.tolerations:
        actions |= Action.POD_TOLERATIONS
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        actions |= Action.POD_CLAIMS
    if [c.resources for c in old.spec.containers] != [c.resources for c in new.spec.containers]:
        actions |= Action.POD_SCALE_DOWN
    if old.spec.node_selector != new.spec.node_selector or old.spec.affinity != new.spec.affinity:
        actions |= Action.OTHER
    return actions
