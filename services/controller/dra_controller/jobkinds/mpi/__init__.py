"""Makes the launcher and the workers of MPIJobs.

Mirrors pkg/controller of kubeflow/mpi-operator.
"""

from dra_controller.jobkinds.mpi.controller import MPIJobController

__all__ = ["MPIJobController"]
