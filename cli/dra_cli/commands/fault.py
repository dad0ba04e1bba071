"""``dralab fault``: makes something go wrong for a time, says what is promised then, and whether it was kept."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from dra_shared.errors import UserError
from dra_shared.optiontypes import number

from dra_cli.access import data_option
from dra_cli.commandline import Parser

if TYPE_CHECKING:
    from dra_lab.faults.story import Sampler
    from dra_shared.faults.catalog import Kind
    from dra_shared.faults.promises import Verdict
    from dra_shared.faults.story import Story

_LONGEST = 3600
#: Seconds that nodes and drivers have to come back once a fault is over.
_RECOVERY = 60
_REQUESTS = ("latency", "error", "conflict", "reset", "loss")
_DEVICES = ("xid", "ecc", "gpu-lost", "mig-changed", "memory-full")
_CALLS = ("driver-hang", "driver-slow", "driver-wrong", "driver-gone", "driver-reset", "driver-old")
# The faults that an option is for. Watches are cut, or held back, all at once.
_FAULTS = {
    "delay": ("latency", "watch-cut", "watch-behind", "driver-slow"),
    "code": ("error",),
    **dict.fromkeys(("share", "seed", "verb", "resource", "agent"), _REQUESTS),
    "driver": ("driver-crash", *_CALLS),
    "gpu": _DEVICES,
    "xid": ("xid",),
    "ahead": ("clock-ahead",),
}


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument(
        "name", nargs="?", default="", help="which fault, or clear; without one all are shown"
    )
    parser.add_argument(
        "service",
        nargs="?",
        default="",
        help="which service (apiserver), or node (node-0); of faults of requests: whose network",
    )
    parser.add_argument("--for", dest="seconds", type=number(0.1, _LONGEST, float), default=10.0,
                        metavar="SECONDS", help="how long (10)")  # fmt: skip
    parser.add_argument(
        "--delay", type=number(0.001, _LONGEST, float), help="latency, watch-cut, watch-behind: seconds (0.5)"
    )
    parser.add_argument("--code", type=int, choices=(429, 500, 503, 504), help="error: the answer (500)")
    parser.add_argument("--share", type=number(0.001, 1, float), help="which share of the requests (1)")
    parser.add_argument("--verb", action="append", default=[], help="only such requests: get, list, watch, …")
    parser.add_argument("--resource", action="append", default=[], help="only for such resources: pods, …")
    parser.add_argument(
        "--agent", action="append", default=[], help="only of clients whose User-Agent has this"
    )
    parser.add_argument("--driver", help="driver-…: only calls to this driver (every one)")
    parser.add_argument("--gpu", type=number(0, 1024, int), help="faults of devices: which GPU (0)")
    parser.add_argument("--xid", type=number(1, 1024, int), help="xid: which error (79)")
    parser.add_argument("--ahead", type=number(0.1, 365 * 86400, float), help="clock-ahead: seconds (300)")
    parser.add_argument("--seed", type=int, help="draws the share (0)")
    parser.switch("--check", default=True, help="wait for the end, and check that the promise was kept")
    data_option(parser)


def run(chosen: argparse.Namespace) -> int:
    """Do it; gives 1 where the promise was broken.

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
    for option, faults in _FAULTS.items():
        if getattr(chosen, option) not in (None, []) and chosen.name not in faults:
            raise UserError(f"--{option} does nothing with {chosen.name}: it is for {', '.join(faults)}", 2)


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
        print("no fault is at work")
        return 0
    kind = KINDS[chosen.name]
    where, arguments = _arguments(chosen, kind)
    sampler = Sampler(cluster)
    story = Story(kind.name, chosen.seconds, where if kind.where == "node" else "")
    if chosen.check:
        story.before = await sampler.sample()
    struck = await striker.strike(kind.name, arguments)
    lasts = "" if kind.name == "kill" else f" for {chosen.seconds:g} s"
    print(f"{kind.name} {where}{lasts}: {kind.what}")
    print(f"promised: {kind.promise}", flush=True)
    if not chosen.check:
        return 0
    async with sampler.during(story):
        try:
            await asyncio.sleep(0 if kind.name == "kill" else chosen.seconds)
        finally:
            await struck.end()
        story.met = await struck.met()
        others = await striker.working()
        # With these the cluster need not come to rest.
        broken = [] if others else await Rest(cluster).wait(120)
        verdict = Verdict(broken=broken) if broken else await _verdict(sampler, story)
        if others:
            verdict.untried.append(
                f"the cluster at rest, as there are other faults at work: {', '.join(others)}"
            )
    print(_shown(verdict))
    return 1 if verdict.broken else 0


async def _verdict(sampler: "Sampler", story: "Story") -> "Verdict":
    """What became of the fault's own promise, a while after its end."""
    from dra_shared.faults.promises import judge

    loop = asyncio.get_running_loop()
    end = loop.time() + _RECOVERY
    while True:
        story.after = await sampler.sample()
        verdict = judge(story)
        if not verdict.broken or loop.time() > end:
            return verdict
        await asyncio.sleep(0.5)


def _shown(verdict: "Verdict") -> str:
    if verdict.broken:
        return "\n".join(["broken:", *(f"  {line}" for line in verdict.broken)])
    lines = [f"kept: {'; '.join(verdict.kept)}"] if verdict.kept else []
    lines += [f"not tried: {'; '.join(verdict.untried)}"] if verdict.untried else []
    return "\n".join(lines)


def _arguments(chosen: argparse.Namespace, kind: "Kind") -> tuple[str, dict[str, Any]]:
    """Where it strikes, in words, and how."""
    match kind.where:
        case "process":
            where = chosen.service or "apiserver"
            return where, {"service": where, "seconds": chosen.seconds}
        case "node":
            where = chosen.service or "node-0"
            given = {"seconds": chosen.seconds, "node": where}
            names = ("driver", "gpu", "xid", "ahead", "delay")
            return where, given | {n: getattr(chosen, n) for n in names if getattr(chosen, n) is not None}
        case "scheduling":
            if chosen.service:
                raise UserError(f"{chosen.name} is of the scheduler: leave {chosen.service!r} out", 2)
            return "scheduler", {"seconds": chosen.seconds}
    if "service" not in kind.options and chosen.service:
        raise UserError(f"{chosen.name} is of the API server's watches: leave {chosen.service!r} out", 2)
    return chosen.service or "apiserver", _of_requests(chosen)


def _of_requests(chosen: argparse.Namespace) -> dict[str, Any]:
    given: dict[str, Any] = {"seconds": chosen.seconds}
    if chosen.service:
        given["service"] = chosen.service
    for name in ("delay", "code", "share", "seed"):
        if getattr(chosen, name) is not None:
            given[name] = getattr(chosen, name)
    for name, field in (("verb", "verbs"), ("resource", "resources"), ("agent", "agents")):
        if getattr(chosen, name):
            given[field] = getattr(chosen, name)
    return given
