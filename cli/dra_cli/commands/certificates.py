"""``dralab certificates``."""

import argparse
import sys
from pathlib import Path

from dra_shared.optiontypes import number

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument(
        "--authority",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="where the certificate authority's ca.crt and ca.key are, or shall be kept",
    )
    parser.add_argument("--namespace", "-n", default="dralab", help="the control plane's namespace (dralab)")
    parser.add_argument("--nodes", type=number(0, 500), default=2, help="how many nodes it has (2)")
    parser.add_argument(
        "--host",
        action="append",
        type=_host,
        default=[],
        metavar="NAME",
        help="another name or address of the API server; may be repeated",
    )


def _host(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("a name or an address is wanted")
    return text


def run(chosen: argparse.Namespace) -> None:
    """Print the Secrets.

    Raises:
        UserError: the authority is of no use.
    """
    import yaml
    from dra_lab.deployment import secrets

    nodes = [f"dralab-node-agent-{each}" for each in range(chosen.nodes)]
    made = secrets(chosen.authority, chosen.namespace, nodes, chosen.host)
    sys.stdout.write(yaml.safe_dump_all(made, sort_keys=False))
