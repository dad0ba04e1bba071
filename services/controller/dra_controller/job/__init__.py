"""Runs the pods of a Job to completion, and counts each of them once.

Mirrors pkg/controller/job.
"""

from dra_controller.job.controller import JobController

__all__ = ["JobController"]
