"""A conformance suite for DRA drivers: what ``dralab conformance driver`` runs, also from a test of one's own.

``run(Options(command=[...]))`` starts an API server, a node and the driver in this process, tries every check, and
gives the results. The suite is the package :mod:`dra_conformance`.
"""

from dra_conformance.catalog import CHECKS, select
from dra_conformance.check import Check, Outcome, Result
from dra_conformance.suite import Options, run

__all__ = ["CHECKS", "Check", "Options", "Outcome", "Result", "run", "select"]
