"""``dralab wait``."""

import argparse
import asyncio
from typing import Any

from dra_shared.durations import parse

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser
from dra_cli.targets import manifests_of, target_options, targets

_WEEK = 168 * 3600.0


def options(parser: Parser) -> None:
    """Add the options."""
    target_options(parser, "wait for")
    parser.add_argument(
        "--for",
        dest="wanted",
        required=True,
        metavar="CONDITION",
        help="create, delete, condition=NAME[=VALUE], or jsonpath={PATH}[=VALUE]",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=30.0,
        metavar="DURATION",
        help="how long to wait: 90s, 5m; 0: check once; negative: a week (30s)",
    )
    cluster_options(parser)


def _seconds(text: str) -> float:
    try:
        # A number without a unit is in seconds.
        found = float(text) if text.removeprefix("-").isdecimal() else parse(text).seconds
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration, such as 30s or 1m30s") from error
    return _WEEK if found < 0 else found


def run(chosen: argparse.Namespace) -> None:
    """Wait until each object meets the condition.

    Raises:
        UserError: the condition is malformed, there are no such objects, or the time is over.
    """
    asyncio.run(_wait(chosen, manifests_of(chosen, "wait for")))


async def _wait(chosen: argparse.Namespace, loaded: list[dict[str, Any]]) -> None:
    from dra_kube import waiting
    from dra_kube.conditions import condition
    from dra_kube.progress import Progress
    from dra_shared.errors import UserError

    gone = chosen.wanted.lower() == "delete"
    met = None if gone else condition(chosen.wanted)
    async with chosen_cluster(chosen).client() as client:
        found = await targets(chosen, client, loaded, "wait for")
        if not found and not gone:
            raise UserError("no matching resources found")
        deadline = waiting.Deadline(chosen.timeout)
        with Progress("condition met", len(found)) as progress:
            for where in found:
                await waiting.wait(client, where, met, deadline)
                progress.print(f"{where} condition met")
                progress.step()
