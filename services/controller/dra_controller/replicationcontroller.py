"""Keeps as many pods as a ReplicationController asks for.

Mirrors pkg/controller/replication/replication_controller.go.
"""

from dra_shared.api.core import (
    ReplicationController,
    ReplicationControllerCondition,
    ReplicationControllerStatus,
)
from dra_shared.api.meta import LabelSelector
from dra_shared.api.resources import REPLICATION_CONTROLLERS

from dra_controller.replicaset import ReplicaSetController


class ReplicationManager(ReplicaSetController):
    """The replicationcontroller-controller.

    Like kube-controller-manager's, it treats ReplicationControllers as ReplicaSets.
    """

    name = "replicationcontroller-controller"
    queue_name = "replicationmanager"
    event_source = "replication-controller"
    owner = REPLICATION_CONTROLLERS
    status = ReplicationControllerStatus
    condition = ReplicationControllerCondition
    counts_terminating = False

    def selector_of(self, owner: ReplicationController) -> LabelSelector | None:
        return LabelSelector(match_labels=owner.spec.selector) if owner.spec.selector else None
