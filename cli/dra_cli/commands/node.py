"""``dralab node``: add and remove nodes of a dralab cluster; cordon, uncordon and drain nodes of any cluster.

``credentials`` writes the files that a node's agent on another machine needs.
"""

import argparse
import asyncio
from pathlib import Path

from dra_kube.access import ChosenCluster
from dra_shared.errors import UserError
from dra_shared.optiontypes import number
from dra_worlds.fleet import DEFAULT_GPUS

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser

_ACTIONS = ("add", "remove", "credentials", "cordon", "uncordon", "drain")


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("action", choices=_ACTIONS, help=", ".join(_ACTIONS))
    parser.add_argument("names", nargs="*", help="the nodes; for add, the name of the new pool")
    parser.add_argument("--count", type=number(1, 500), default=1, help="add: how many nodes (1)")
    parser.add_argument("--gpus", default=DEFAULT_GPUS, help="add: GPUs of each node")
    parser.add_argument(
        "--driver", action="append", default=[], help="add: a driver of each node; may be repeated"
    )
    parser.add_argument("--cpu", default="64", help="add: CPUs of each node (64)")
    parser.add_argument("--memory", default="512Gi", help="add: memory of each node (512Gi)")
    parser.add_argument(
        "--label", action="append", default=[], metavar="KEY=VALUE", help="add: a label of each node"
    )
    parser.add_argument(
        "--taint", action="append", default=[], metavar="KEY=VALUE:EFFECT", help="add: a taint of each node"
    )
    parser.add_argument("--zone", default="", help="add: the nodes' zone")
    parser.add_argument("--price", type=float, help="add: the price of a node per hour")
    parser.add_argument("--address", help="credentials: the address of the node")
    parser.add_argument(
        "--url",
        help="credentials: the API server's URL for the node (default: as in the cluster's own kubeconfig)",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="credentials: the folder to write")
    parser.switch("--ignore-daemonsets", help="drain: leave the pods of DaemonSets")
    parser.switch("--force", help="drain: also delete pods without a controller")
    parser.add_argument("--grace-period", "--grace", type=int, help="drain: seconds that pods get to stop")
    parser.add_argument("--timeout", type=float, default=120.0, help="how long to wait, in seconds (120)")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Add, remove, cordon, uncordon or drain nodes, or write credentials.

    Raises:
        UserError: the nodes are not named, or the action needs a dralab cluster.
    """
    from dra_lab import nodes

    cluster = chosen_cluster(chosen)
    if chosen.action in ("add", "remove", "credentials") and cluster.data is None:
        raise UserError(f"`node {chosen.action}` is for a cluster of dralab: name it with --data")
    if chosen.action == "credentials":
        _credentials(chosen, cluster)
        return
    if chosen.action == "add":
        work = nodes.add(cluster, _pool(chosen), chosen.timeout)
    elif not chosen.names:
        raise UserError(f"say which: dralab node {chosen.action} NAME…", 2)
    elif chosen.action == "remove":
        work = nodes.remove(cluster, chosen.names, chosen.timeout)
    elif chosen.action == "drain":
        eviction = nodes.Eviction(chosen.ignore_daemonsets, chosen.force, chosen.grace_period, chosen.timeout)
        work = nodes.drain(cluster, chosen.names, eviction)
    else:
        work = nodes.cordon(cluster, chosen.names, unschedulable=chosen.action == "cordon")
    asyncio.run(work)


def _credentials(chosen: argparse.Namespace, cluster: ChosenCluster) -> None:
    from dra_kube.cluster import Cluster
    from dra_lab.protection import write_node

    if len(chosen.names) != 1 or chosen.address is None or chosen.out is None:
        raise UserError("say for which: dralab node credentials NAME --address ADDRESS --out FOLDER", 2)
    assert cluster.data is not None
    home = Cluster(cluster.data)
    home.record()
    command = write_node(home, chosen.out, chosen.names[0], chosen.address, chosen.url)
    print(f"wrote {chosen.out}; copy it to the node's machine and run there: {command}")


def _pool(chosen: argparse.Namespace) -> dict[str, object]:
    if len(chosen.names) > 1:
        raise UserError("nodes that are added together are one pool: give one name", 2)
    given: dict[str, object] = {
        "count": chosen.count,
        "gpus": chosen.gpus,
        "drivers": chosen.driver,
        "cpu": chosen.cpu,
        "memory": chosen.memory,
        "labels": dict(label.split("=", 1) if "=" in label else (label, "") for label in chosen.label),
        "taints": chosen.taint,
        "zone": chosen.zone,
    }
    if chosen.names:
        given["name"] = chosen.names[0]
    if chosen.price is not None:
        given["price"] = chosen.price
    return given
