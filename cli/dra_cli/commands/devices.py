"""``dralab devices``."""

import argparse

from dra_shared.errors import UserError

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser

_OUTPUTS = ("", "json")


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("node", nargs="?", default="", help="only the devices of this node")
    parser.add_argument("--output", "-o", default="", help="json instead of a table")
    parser.add_argument("--no-headers", action="store_true", help="leave the columns' names out")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print a row for each device.

    Raises:
        UserError: the output is unknown.
    """
    import json

    from dra_kube.selection import discover
    from dra_kube.tables import Table

    from dra_cli.devices import HEADER, World, rows

    if chosen.output not in _OUTPUTS:
        raise UserError(f"unknown output {chosen.output!r}: choose json, or leave it out", 2)
    with chosen_cluster(chosen).reader() as reader:
        discovery = discover(reader)

        def read(kind: str) -> list[dict[str, object]]:
            resource = discovery.find(kind)
            items: list[dict[str, object]] = reader.json(resource.path())["items"] if resource else []
            return items

        world = World(read("resourceslices"), read("resourceclaims"), read("pods"), read("devicetaintrules"))
        found = rows(world, chosen.node.removeprefix("node/"))
        if chosen.output == "json":
            names = [name.lower() for name in HEADER]
            print(json.dumps([dict(zip(names, row, strict=True)) for row in found], indent=2))
        elif found:
            print(Table(HEADER, headers=not chosen.no_headers).text(found))
        else:
            print("No devices found.")
