"""The options that say which cluster a command means: ``--data``, ``--kubeconfig``, ``--context``, ``--server``.

Commands that work with any Kubernetes cluster take all four (:func:`cluster_options`); those about a cluster's own
processes take ``--data`` alone (:func:`data_option`).
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
    """Add ``--at``, which has a command look at the past."""
    parser.add_argument(
        "--at",
        default="",
        metavar="MOMENT",
        help="as it was: -5m (ago), 2026-01-02T03:04:05Z (a time) or 1234 (a revision); see docs/history.md",
    )


def chosen_cluster(chosen: argparse.Namespace) -> ChosenCluster:
    """Return the cluster that the options name, at the moment that they name.

    Raises:
        UserError: the options contradict each other.
    """
    return choose_cluster(
        chosen.data, chosen.kubeconfig, chosen.context, chosen.server, getattr(chosen, "at", "")
    )


def warn_uncertain(problem: str) -> None:
    """Print a problem that makes an answer uncertain on standard error."""
    print(f"dralab: uncertain: {problem}", file=sys.stderr)
