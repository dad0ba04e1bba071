"""``dralab devices``."""

import argparse

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("node", nargs="?", default="", help="only the devices of this node")
    parser.add_argument("--output", "-o", default="", help="json or yaml instead of a table")
    parser.add_argument("--no-headers", action="store_true", help="leave the columns' names out")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print a row for each device.

    Raises:
        UserError: the output is unknown.
    """
    from dra_kube.selection import discover
    from dra_kube.tables import Table

    from dra_cli.devices import HEADER, World, rows
    from dra_cli.outputs import check_data_output, format_data

    check_data_output(chosen.output)
    with chosen_cluster(chosen).reader() as reader:
        discovery = discover(reader)

        def read(kind: str) -> list[dict[str, object]]:
            resource = discovery.find(kind)
            items: list[dict[str, object]] = reader.json(resource.path())["items"] if resource else []
            return items

        world = World(read("resourceslices"), read("resourceclaims"), read("pods"), read("devicetaintrules"))
        found = rows(world, chosen.node.removeprefix("node/"))
        if chosen.output:
            names = [name.lower() for name in HEADER]
            print(format_data([dict(zip(names, row, strict=True)) for row in found], chosen.output))
        elif found:
            print(Table(HEADER, headers=not chosen.no_headers).text(found))
        else:
            print("No devices found.")
