"""Options that select a cluster: ``--data``, ``--kubeconfig``, ``--context``, ``--server``.

Commands for any Kubernetes cluster have all four (:func:`cluster_options`). Commands about a cluster's own processes
have only ``--data`` (:func:`data_option`).
"""

import argparse
import sys
from pathlib import Path

from dra_kube.access import ChosenCluster, choose_cluster, default_data


def data_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--data``."""
    parser.add_argument(
        "--data",
        type=Path,
        default=default_data(),
        metavar="DIR",
        help="the cluster's directory: its state, logs, kubeconfig (default: DRALAB_DATA, or .dralab)",
    )


def cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add the four options; see :func:`chosen_cluster`."""
    data_option(parser)
    parser.set_defaults(data=None)
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="a kubeconfig, for any cluster")
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context to use")
    parser.add_argument("--server", "-s", metavar="URL", help="the API server's URL, without a kubeconfig")


def moment_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--at``, with which a command reads the past."""
    parser.add_argument(
        "--at",
        default="",
        metavar="MOMENT",
        help="a moment in the past: -5m (ago), 2026-01-02T03:04:05Z (a time) or 1234 (a revision); see docs/history.md",
    )


def chosen_cluster(chosen: argparse.Namespace) -> ChosenCluster:
    """Return the cluster and the moment that the options select.

    Raises:
        UserError: the options contradict each other.
    """
    return choose_cluster(
        chosen.data, chosen.kubeconfig, chosen.context, chosen.server, getattr(chosen, "at", "")
    )


def warn_uncertain(problem: str) -> None:
    """Print a problem that makes an answer uncertain on standard error."""
    print(f"dralab: uncertain: {problem}", file=sys.stderr)
