"""A conformance suite for DRA drivers: what ``dralab conformance driver`` runs, also from a test of one's own.

``run(Options(command=[...]))`` starts an API server, a node and the driver in this process, tries every check, and
gives the results.
"""

from dralab.conformance.catalog import CHECKS, select
from dralab.conformance.check import Check, Outcome, Result
from dralab.conformance.suite import Options, run

__all__ = ["CHECKS", "Check", "Options", "Outcome", "Result", "run", "select"]
