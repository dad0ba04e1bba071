"""The conformance suite for DRA drivers, as in ``dralab conformance driver``, for use in your own tests.

``run(Options(command=[...]))`` starts an API server, a node and the driver in this process, runs every check, and
returns the results. The suite is the package :mod:`dra_conformance`.
"""

from dra_conformance.catalog import CHECKS, select
from dra_conformance.check import Check, Outcome, Result
from dra_conformance.suite import Options, run

__all__ = ["CHECKS", "Check", "Options", "Outcome", "Result", "run", "select"]
