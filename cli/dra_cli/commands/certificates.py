"""``dralab certificates``."""

import argparse
import sys
from pathlib import Path

from dra_shared.optiontypes import number

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--authority",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="the folder of the certificate authority's ca.crt and ca.key; created if missing",
    )
    parser.add_argument(
        "--namespace", "-n", default="dralab", help="the namespace of the control plane (dralab)"
    )
    parser.add_argument("--nodes", type=number(0, 500), default=2, help="the number of its nodes (2)")
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
        raise argparse.ArgumentTypeError("expected a name or an address")
    return text


def run(chosen: argparse.Namespace) -> None:
    """Print the Secrets.

    Raises:
        UserError: the certificate authority cannot be used.
    """
    import yaml
    from dra_lab.deployment import secrets

    nodes = [f"dralab-node-agent-{each}" for each in range(chosen.nodes)]
    made = secrets(chosen.authority, chosen.namespace, nodes, chosen.host)
    sys.stdout.write(yaml.safe_dump_all(made, sort_keys=False))
