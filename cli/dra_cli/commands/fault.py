"""``dralab fault``: inject a fault for some time, print what Kubernetes promises for it, and check it."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from dra_shared.errors import UserError
from dra_shared.optiontypes import number

from dra_cli.access import data_option
from dra_cli.commandline import Parser

if TYPE_CHECKING:
    from dra_lab.faults.story import Sampler
    from dra_shared.faults.kind import Flag, Kind
    from dra_shared.faults.promises import Verdict
    from dra_shared.faults.story import Story

#: The seconds for nodes and drivers to recover after a fault.
_RECOVERY = 60


def options(parser: Parser) -> None:
    """Add the options."""
    from dra_shared.faults.places import LONGEST

    parser.add_argument(
        "name",
        nargs="?",
        default="",
        help="the fault, or clear to end all; without a name all faults are listed",
    )
    parser.add_argument(
        "service",
        nargs="?",
        default="",
        help="the service (apiserver) or node (node-0); for faults of requests: the service whose requests fail",
    )
    parser.add_argument("--for", dest="seconds", type=number(0.1, LONGEST, float), default=10.0,
                        metavar="SECONDS", help="until the fault ends (10)")  # fmt: skip
    for flag in _flags():
        parser.add_argument(flag.name, help=flag.help, **flag.settings)
    parser.switch("--check", default=True, help="wait for the end, and check that the promise was kept")
    data_option(parser)


def run(chosen: argparse.Namespace) -> int:
    """Inject the fault and judge its promise. Return 1 if the promise was broken.

    Raises:
        UserError: there is no such fault, or the cluster does not run.
    """
    from dra_shared.faults.catalog import KINDS

    if not chosen.name:
        width = max(map(len, KINDS))
        for kind in KINDS.values():
            print(f"{kind.name:{width}}  {kind.what}")
        return 0
    if chosen.name != "clear" and chosen.name not in KINDS:
        raise UserError(f"there is no fault {chosen.name!r}: choose {', '.join(KINDS)}, clear", 2)
    _check_options(chosen)
    return asyncio.run(_run(chosen))


def _check_options(chosen: argparse.Namespace) -> None:
    if chosen.name == "clear" and chosen.service:
        raise UserError(f"clear ends every fault: leave {chosen.service!r} out", 2)
    for flag, faults in _flags().items():
        if getattr(chosen, flag.destination) not in (None, []) and chosen.name not in faults:
            raise UserError(f"{flag.name} does nothing with {chosen.name}: it is for {', '.join(faults)}", 2)


def _flags() -> "dict[Flag, list[str]]":
    """Return the options of all faults, each with the names of the faults that it is for."""
    from dra_shared.faults.catalog import KINDS

    found: dict[str, tuple[Flag, list[str]]] = {}
    for kind in KINDS.values():
        for flag in kind.flags:
            found.setdefault(flag.name, (flag, []))[1].append(kind.name)
    return dict(found.values())


async def _run(chosen: argparse.Namespace) -> int:
    from dra_kube.cluster import Cluster
    from dra_lab.faults.rest import Rest
    from dra_lab.faults.story import Sampler
    from dra_lab.faults.striking import Striker
    from dra_shared.faults.catalog import KINDS
    from dra_shared.faults.promises import Verdict
    from dra_shared.faults.story import Story

    cluster = Cluster(chosen.data)
    striker = Striker(cluster)
    if chosen.name == "clear":
        await striker.clear()
        print("all faults are ended")
        return 0
    kind = KINDS[chosen.name]
    where, arguments = _arguments(chosen, kind)
    sampler = Sampler(cluster)
    story = Story(kind.name, chosen.seconds, where if kind.where == "node" else "")
    if chosen.check:
        story.before = await sampler.sample()
    struck = await striker.strike(kind.name, arguments)
    lasts = f" for {chosen.seconds:g} s" if kind.lasts else ""
    print(f"{kind.name} {where}{lasts}: {kind.what}")
    print(f"promised: {kind.promise}", flush=True)
    if not chosen.check:
        return 0
    async with sampler.during(story):
        try:
            await asyncio.sleep(chosen.seconds if kind.lasts else 0)
        finally:
            await struck.end()
        story.met = await struck.count_affected()
        others = await striker.active_faults()
        # Other faults may keep the cluster from settling.
        broken = [] if others else await Rest(cluster).wait(120)
        verdict = Verdict(broken=broken) if broken else await _verdict(sampler, story)
        if others:
            verdict.untried.append(
                f"the cluster at rest, because other faults are active: {', '.join(others)}"
            )
    print(_format_verdict(verdict))
    return 1 if verdict.broken else 0


async def _verdict(sampler: "Sampler", story: "Story") -> "Verdict":
    """Return the verdict on the fault's promise. While it is broken, allow some time for recovery."""
    from dra_shared.faults.promises import judge

    loop = asyncio.get_running_loop()
    end = loop.time() + _RECOVERY
    while True:
        story.after = await sampler.sample()
        verdict = judge(story)
        if not verdict.broken or loop.time() > end:
            return verdict
        await asyncio.sleep(0.5)


def _format_verdict(verdict: "Verdict") -> str:
    if verdict.broken:
        return "\n".join(["broken:", *(f"  {line}" for line in verdict.broken)])
    lines = [f"kept: {'; '.join(verdict.kept)}"] if verdict.kept else []
    lines += [f"not tried: {'; '.join(verdict.untried)}"] if verdict.untried else []
    return "\n".join(lines)


def _arguments(chosen: argparse.Namespace, kind: "Kind") -> tuple[str, dict[str, Any]]:
    """Return the target in words, and the arguments of the fault."""
    given: dict[str, Any] = {"seconds": chosen.seconds}
    for flag in kind.flags:
        if (value := getattr(chosen, flag.destination)) not in (None, []):
            given[flag.field] = value
    match kind.where:
        case "process":
            given["service"] = chosen.service or "apiserver"
            return given["service"], given
        case "node":
            given["node"] = chosen.service or "node-0"
            return given["node"], given
        case "scheduling":
            if chosen.service:
                raise UserError(f"{chosen.name} is a fault of the scheduler: leave {chosen.service!r} out", 2)
            return "scheduler", given
    if "service" not in kind.options and chosen.service:
        raise UserError(
            f"{chosen.name} is a fault of the API server's watches: leave {chosen.service!r} out", 2
        )
    if chosen.service:
        given["service"] = chosen.service
    return chosen.service or "apiserver", given
