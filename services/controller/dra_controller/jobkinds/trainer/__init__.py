"""Makes the JobSets of TrainJobs.

Mirrors pkg/controller and pkg/runtime of kubeflow/trainer.
"""

from dra_controller.jobkinds.trainer.controller import TrainJobController

__all__ = ["TrainJobController"]
