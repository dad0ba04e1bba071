"""``dralab explain``."""

import argparse
import asyncio

from dra_cli.access import chosen_cluster, cluster_options, moment_option, warn_uncertain
from dra_cli.commandline import Parser

# Kinds that select pods, by all names that kubectl accepts for them.
_WORKLOADS = (
    *("deployment", "deployments", "deploy", "replicaset", "replicasets", "rs"),
    *("statefulset", "statefulsets", "sts", "daemonset", "daemonsets", "ds"),
    *("job", "jobs", "replicationcontroller", "replicationcontrollers", "rc"),
)


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "target", help="pod/NAME, claim/NAME, class/NAME, or deploy/NAME and the like for one of its pods"
    )
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    parser.add_argument("--nodes", type=int, default=20, help="how many nodes to show (20)")
    parser.add_argument("--output", "-o", default="", help="json or yaml instead of a tree")
    parser.add_argument(
        "--from", dest="source", metavar="SOURCE", help="a dump of a cluster; see docs/plan.md"
    )
    moment_option(parser)
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print the explanation."""
    from dra_worlds import insight

    cluster = chosen_cluster(chosen)
    namespace = chosen.namespace or "default"
    target = chosen.target
    if target.partition("/")[0] in _WORKLOADS and chosen.source is None:
        from dra_kube.owned import waiting_pod_of

        with cluster.reader() as reader:
            target = f"pod/{waiting_pod_of(reader, namespace, target)}"
    explain = insight.explain(
        cluster, target, namespace, chosen.nodes, chosen.output, chosen.source, warn=warn_uncertain
    )
    print(asyncio.run(explain))
