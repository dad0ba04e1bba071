"""``dralab apply``."""

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser
from dra_cli.targets import read_output, recursive_option, stored_output_option


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--filename",
        "-f",
        action="append",
        default=[],
        help="manifest: a file, a folder, or - for standard input; may be repeated",
    )
    recursive_option(parser)
    parser.add_argument("--kustomize", "-k", metavar="DIR", help="apply the objects of this kustomization")
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    stored_output_option(parser)
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Apply the manifests and print the outcome of each object.

    Raises:
        UserError: no manifests are given, or they cannot be used.
    """
    from dra_kube import manifests
    from dra_kube.kustomization import build

    if not (chosen.filename or chosen.kustomize):
        raise UserError("say what to apply: --filename FILE or --kustomize DIR; see dralab apply --help", 2)
    loaded = manifests.load(chosen.filename, recursive=chosen.recursive) if chosen.filename else []
    loaded += build(chosen.kustomize) if chosen.kustomize else []
    asyncio.run(_apply(chosen, loaded))


async def _apply(chosen: argparse.Namespace, loaded: Sequence[dict[str, Any]]) -> None:
    from dra_kube import objects
    from dra_kube.discovery import Discovery
    from dra_kube.progress import Progress
    from dra_kube.warnings import WarningWriter

    shown = read_output(chosen.output)

    def report(where: objects.Target, outcome: str, stored: JsonObject) -> None:
        progress.clear()
        text = shown([(str(where), stored)], True) if shown else f"{where} {outcome}\n"
        print(text, end="", flush=True)
        progress.step()

    async with chosen_cluster(chosen).client() as client:
        discovery = await Discovery.read(client)
        with Progress("applying", len(loaded)) as progress:
            warn = WarningWriter(progress.note)
            await objects.apply(client, discovery, loaded, chosen.namespace, report=report, warn=warn)
