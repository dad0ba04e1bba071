"""Makes the Jobs of JobSets.

Mirrors pkg/controllers of kubernetes-sigs/jobset.
"""

from dra_controller.jobkinds.jobset.controller import JobSetController

__all__ = ["JobSetController"]
