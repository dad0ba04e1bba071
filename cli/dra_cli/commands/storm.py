"""``dralab storm``: create and delete pods while random faults are injected, and check the cluster afterwards."""

import argparse
import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dra_shared.errors import UserError
from dra_shared.optiontypes import number

from dra_cli.commandline import Parser
from dra_cli.commands import up

if TYPE_CHECKING:
    from dra_lab.clusteroptions import ClusterOptions
    from dra_lab.faults.script import Step
    from dra_lab.forkserver import ForkServer


def options(parser: Parser) -> None:
    """Add the options of ``up``, and those for the storm's length and seed."""
    up.options(parser)
    parser.set_defaults(data=None, port=0, relaxed=True)
    parser.add_argument(
        "--minutes", type=number(0.05, 24 * 60, float), default=5.0, help="minutes until the storm ends (5)"
    )
    parser.add_argument("--seed", type=int, default=1, help="the seed for pods and faults (1)")
    parser.add_argument(
        "--class",
        dest="device_class",
        default="gpu.nvidia.com",
        help="the class of the devices (gpu.nvidia.com)",
    )
    parser.switch("--script", help="print the script of the seed, and start nothing")
    parser.switch("--verbose", help="print each step when it is done")


def run(chosen: argparse.Namespace) -> int:
    """Run the storm. Return 1 if something is broken afterwards.

    Raises:
        UserError: the cluster does not start.
    """
    from dra_lab.faults.script import script

    if chosen.detach:
        raise UserError("a storm ends by itself: leave out --detach", 2)
    asked = up.read_options(chosen)
    nodes = [name for pool in asked.pools for name in pool.nodes]
    if not nodes:
        raise UserError("a storm needs a node for its faults and pods", 2)
    steps = script(chosen.seed, chosen.minutes * 60, nodes)
    if chosen.script:
        print("\n".join(map(str, steps)))
        return 0
    from dra_lab.forkserver import fork_servers

    with contextlib.ExitStack() as stack:
        # Fork before any thread is started.
        forks = [stack.enter_context(contextlib.closing(server)) for server in fork_servers()]
        return asyncio.run(_run(chosen, asked, steps, forks))


async def _run(
    chosen: argparse.Namespace, asked: "ClusterOptions", steps: "list[Step]", forks: "list[ForkServer]"
) -> int:
    from dra_kube.cluster import Cluster
    from dra_lab.faults.storm import Storm
    from dra_lab.starting import run_services
    from dra_shared.log import configure

    # Hide warnings: most would be about faults that this command injects itself.
    configure("storm", "error", final=False)

    def report(line: str) -> None:
        if chosen.verbose:
            print(line, flush=True)

    with contextlib.ExitStack() as stack:
        folder = chosen.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dralab-storm-")))
        cluster = Cluster(folder)
        async with run_services(cluster, asked, report, forks):
            storm = Storm(cluster, chosen.device_class, report)
            broken = await storm.run(steps)
    return _verdict(broken, steps, chosen.seed, storm.refused)


def _verdict(broken: list[str], steps: "list[Step]", seed: int, refused: int) -> int:
    from dra_shared.plurals import count

    pods = sum(step.action == "create" for step in steps)
    faults = sum(step.action not in ("create", "delete") for step in steps)
    done = f"{faults - refused} of {count(faults, 'fault')}" if refused else count(faults, "fault")
    text = f"seed {seed}: {count(pods, 'pod')} and {done}"
    if not broken:
        print(f"{text}: nothing is broken")
        return 0
    print("\n".join([f"{text}, broken:", *(f"  {line}" for line in broken)]))
    print(f"to repeat it, use --seed {seed} with the same options", file=sys.stderr)
    return 1
