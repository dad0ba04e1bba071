"""Makes the pods of RayClusters, and the clusters and submitters of RayJobs.

Mirrors ray-operator/controllers/ray of ray-project/kuberay. The operator's feature gates have their defaults.
"""

from dra_controller.jobkinds.ray.cluster import RayClusterController
from dra_controller.jobkinds.ray.job import RayJobController

__all__ = ["RayClusterController", "RayJobController"]
