"""``dralab top``: show the CPU and memory that nodes and pods use, from metrics.k8s.io."""

import argparse
from typing import Any

from dra_shared.errors import UserError

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser

_NODES = ("node", "nodes", "no")
_PODS = ("pod", "pods", "po")
_METRICS = "/apis/metrics.k8s.io/v1beta1"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("kind", help="nodes or pods")
    parser.add_argument("name", nargs="?", help="only the node or pod of this name")
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    parser.add_argument("--all-namespaces", "-A", action="store_true", help="pods of all namespaces")
    parser.add_argument("--selector", "-l", help="label selector")
    parser.add_argument("--no-headers", action="store_true", help="leave the columns' names out")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print the usage.

    Raises:
        UserError: the kind has no metrics.
    """
    from dra_kube.tables import Table, natural_key
    from dra_shared.quantity import Quantity

    with chosen_cluster(chosen).reader() as reader:
        if chosen.kind in _NODES:
            path, spaced = f"{_METRICS}/nodes", False
        elif chosen.kind in _PODS:
            spaced = chosen.all_namespaces
            path = (
                f"{_METRICS}/pods"
                if spaced
                else f"{_METRICS}/namespaces/{chosen.namespace or 'default'}/pods"
            )
        else:
            raise UserError(f"cannot measure {chosen.kind!r}: choose nodes or pods", 2)
        items = reader.json(path, {"labelSelector": chosen.selector})["items"]
        if chosen.name:
            items = [item for item in items if item["metadata"]["name"] == chosen.name]

        def sum_usage(item: dict[str, Any], what: str) -> float:
            usages = [item["usage"]] if "usage" in item else [one["usage"] for one in item["containers"]]
            return sum(Quantity.parse(usage.get(what, "0")).milli_value() / 1000 for usage in usages)

        if not items:
            print("No resources found.")
            return
        names = ["NAMESPACE"] * spaced + ["NAME", "CPU(cores)", "MEMORY(bytes)"]
        rows = []
        for item in sorted(items, key=lambda item: natural_key(item["metadata"]["name"])):
            cpu, memory = sum_usage(item, "cpu"), sum_usage(item, "memory")
            cells = [item["metadata"]["name"], f"{round(cpu * 1000)}m", f"{round(memory / (1 << 20))}Mi"]
            rows.append([item["metadata"]["namespace"], *cells] if spaced else cells)
        print(Table(names, headers=not chosen.no_headers).text(rows))
