"""Plugins that choose placements of pod groups by topology (gate TopologyAwareWorkloadScheduling).

Profiles may name these plugins, as upstream. They have no effect here: groups are placed without them.
"""


class TopologyPlacementGenerator:
    """Generates placements by topology (``pkg/scheduler/framework/plugins/topologyaware``)."""

    name = "TopologyPlacementGenerator"
    upstream_points = ("placementGenerate",)


class PodGroupPodsCount:
    """Scores a placement by the number of pods that it takes (``plugins/podgrouppodscount``)."""

    name = "PodGroupPodsCount"
    upstream_points = ("placementScore",)
