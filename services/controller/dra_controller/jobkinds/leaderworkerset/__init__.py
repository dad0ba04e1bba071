"""Makes the groups of LeaderWorkerSets: a StatefulSet of leaders, and one of workers for each leader.

Mirrors pkg/controllers and pkg/webhooks of kubernetes-sigs/lws.
"""

from dra_controller.jobkinds.leaderworkerset.controller import LeaderWorkerSetController

__all__ = ["LeaderWorkerSetController"]
