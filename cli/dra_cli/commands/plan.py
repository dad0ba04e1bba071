"""``dralab plan``: what the scheduler would do, asked of a world in memory."""

import argparse
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from dra_shared.version import DEFAULT, VERSIONS

from dra_cli.commandline import Parser, number
from dra_cli.errors import CommandError

# The words after a question are read by a parser of its own.
TAKES_ALL = True

_OUTPUTS = ("", "json", "yaml", "html")
_VERSIONS = [str(version) for version in VERSIONS]


class _Question(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; see {self.prog} --help", 2)


def options(parser: Parser) -> None:
    """Declare what it takes."""
    questions = parser.add_subparsers(
        dest="question", required=True, metavar="QUESTION", parser_class=_Question
    )

    def question(name: str, text: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        made = questions.add_parser(name, help=text, description=text, allow_abbrev=False)
        made.set_defaults(answer=run)
        return made

    fit = question("fit", "whether pods fit, how many, where, and what would have to change", _fit)
    fit.add_argument("file", help="manifests: a file, a folder, or - for standard input")
    many = fit.add_mutually_exclusive_group()
    many.add_argument("--count", type=number(1), help="so many copies of the pods in FILE")
    many.add_argument("--max", action="store_true", dest="most", help="as many copies as fit")
    fit.add_argument("--namespace", "-n", help="namespace of manifests that name none (default: default)")
    drain = question("drain", "where the pods of nodes go when they are drained, and who is stuck", _moves)
    remove = question("remove", "where the pods of nodes go when the nodes are gone at once", _moves)
    for each in (drain, remove):
        each.add_argument("nodes_named", nargs="+", metavar="NODE")
    upgrade = question("upgrade", "nodes are drained one by one and come back: in which order", _moves)
    upgrade.add_argument("nodes_named", nargs="*", metavar="NODE", help="all nodes unless some are named")
    taint = question("taint", "which pods leave a tainted node or device", _moves)
    taint.add_argument("target", help="node/NAME or device/DRIVER/POOL/DEVICE")
    taint.add_argument("taint", help="KEY[=VALUE]:EFFECT")
    change = question("change", "what the same pods would get after an edit", _change)
    _edit(change)
    nodes = question("nodes", "the cheapest nodes on which everything that waits fits", _nodes)
    nodes.add_argument("file", nargs="?", help="manifests that come on top of what waits in the world")
    nodes.add_argument(
        "--catalog", type=Path, required=True, metavar="TYPES", help="types of nodes and prices"
    )
    nodes.add_argument("--count", type=number(1), help="so many copies of the pods in FILE")
    nodes.add_argument("--time", type=number(0.0, None, float), default=60.0, help="seconds to search (60)")
    nodes.add_argument("--namespace", "-n", help="namespace of manifests that name none (default: default)")
    pack = question("pack", "what is stranded, what nodes could still take, and moves that make room", _pack)
    pack.add_argument("--for", dest="file", metavar="FILE", help="pods that moves are to make room for")
    pack.add_argument("--count", type=number(1), help="so many copies of the pods in FILE")
    pack.add_argument("--time", type=number(0.0, None, float), default=60.0, help="seconds to search (60)")
    pack.add_argument("--namespace", "-n", help="namespace of manifests that name none (default: default)")
    replay = question("replay", "how a recorded timeline of pods would go", _replay)
    replay.add_argument("file", help="the timeline: CSV of start, end and shape, a dump, or a recorded watch")
    replay.add_argument("--shapes", metavar="FILE", help="manifests of the pods that a CSV names")
    replay.add_argument(
        "--changes", type=Path, metavar="FILE", help="changes to try, each on top of the last"
    )
    replay.add_argument(
        "--starved-after",
        type=number(0.0, None, float),
        default=600.0,
        metavar="SECONDS",
        help="pods that wait longer starve (600)",
    )
    for each in (fit, drain, remove, upgrade, taint, change, nodes, pack, replay):
        _common(each)


def _edit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="the changed objects: a file, a folder, or - for standard input")
    parser.add_argument(
        "--config-after", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration after the edit"
    )
    parser.add_argument(
        "--version-after", default="", choices=_VERSIONS, help="the version of Kubernetes after the edit"
    )
    parser.add_argument("--gates-after", default="", help="feature gates after the edit: A=true,B=false")


def _common(parser: argparse.ArgumentParser) -> None:
    from dra_cli.plan.sources import world_options

    parser.add_argument("--output", "-o", default="", help="json, yaml or html instead of text")
    parser.add_argument(
        "--feature-gates", default="", help="feature gates: A=true,B=false; others are as in the cluster"
    )
    parser.add_argument(
        "--kubernetes-version",
        default="",
        choices=_VERSIONS,
        help=f"the version of Kubernetes whose scheduler decides (default: the cluster's, else {DEFAULT})",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration to go by")
    parser.add_argument("--seed", type=int, default=0, help="decides between nodes that are equally good (0)")
    parser.add_argument("--quiet", "-q", action="store_true", help="show no progress")
    world_options(parser)


def run(chosen: argparse.Namespace) -> int:
    """Answer the question; 0: yes, 1: no, 130: interrupted.

    Raises:
        CommandError: there is no such output.
    """
    if chosen.output not in _OUTPUTS:
        raise CommandError(f"unknown output {chosen.output!r}: choose json, yaml or html, or leave it out", 2)
    from dra_scheduler.plan.garbage import rarely_collected

    with rarely_collected():
        code: int = chosen.answer(chosen)
    return code


def _fit(chosen: argparse.Namespace) -> int:
    from dra_scheduler.plan.fit import Fitter

    from dra_cli.plan.show import fit_text
    from dra_cli.plan.sources import chosen_world
    from dra_cli.plan.wanted import asked_of
    from dra_cli.plan.working import Progress, Settings, simulation

    source = chosen_world(chosen)
    settings = Settings.of(chosen, source.running)
    asked = asked_of(source, chosen.file, settings, chosen.namespace)
    with Progress("placed", quiet=chosen.quiet) as progress:
        world = simulation(source.objects, asked, settings, progress.running)
        answer = Fitter(world, asked, progress.at).answer(chosen.count, most=chosen.most)
    return _shown(chosen, source, answer, fit_text)


def _moves(chosen: argparse.Namespace) -> int:
    from dra_scheduler.plan.moves import Mover

    from dra_cli.plan.questions import moves
    from dra_cli.plan.show import moves_text
    from dra_cli.plan.sources import chosen_world
    from dra_cli.plan.working import Progress, Settings, simulation

    source = chosen_world(chosen)
    with Progress("tried", quiet=chosen.quiet) as progress:
        world = simulation(source.objects, None, Settings.of(chosen, source.running), progress.running)
        answer = moves(Mover(world), chosen, source.objects)
    return _shown(chosen, source, answer, moves_text)


def _change(chosen: argparse.Namespace) -> int:
    from dra_scheduler.plan.change import compared

    from dra_cli.plan.questions import before_and_after
    from dra_cli.plan.show import change_text
    from dra_cli.plan.sources import chosen_world

    source = chosen_world(chosen)
    before, after = before_and_after(source, chosen)
    return _shown(chosen, source, compared(before, after), change_text)


def _nodes(chosen: argparse.Namespace) -> int:
    import time

    from dra_scheduler.plan.fit import Wanted
    from dra_scheduler.plan.purchase.buyer import Buyer

    from dra_cli.plan.catalog import catalog, with_types
    from dra_cli.plan.show import purchase_text
    from dra_cli.plan.sources import chosen_world
    from dra_cli.plan.wanted import asked_of
    from dra_cli.plan.working import Progress, Settings, new_simulation

    types = catalog(chosen.catalog)
    source = chosen_world(chosen)
    settings = Settings.of(chosen, source.running)
    source = with_types(source, types, settings)
    asked = asked_of(source, chosen.file, settings, chosen.namespace) if chosen.file else Wanted(())
    end = time.monotonic() + chosen.time
    with Progress("tried", quiet=chosen.quiet) as progress:
        new = new_simulation(source.objects, asked, settings)
        buyer = Buyer(
            source.objects,
            asked,
            types,
            new,
            running=progress.running,
            in_time=lambda: time.monotonic() < end,
        )
        answer = buyer.answer(chosen.count)
    return _shown(chosen, source, answer, purchase_text)


def _pack(chosen: argparse.Namespace) -> int:
    from dra_cli.plan.questions import packing
    from dra_cli.plan.show import packing_text
    from dra_cli.plan.sources import chosen_world
    from dra_cli.plan.working import Progress

    source = chosen_world(chosen)
    with Progress("placed", quiet=chosen.quiet) as progress:
        answer = packing(source, chosen, progress)
    return _shown(chosen, source, answer, packing_text)


def _replay(chosen: argparse.Namespace) -> int:
    from dra_cli.plan.questions import replayed
    from dra_cli.plan.show import replay_text
    from dra_cli.plan.sources import chosen_world
    from dra_cli.plan.working import Progress

    source = chosen_world(chosen)
    with Progress("arrived", quiet=chosen.quiet) as progress:
        answer, problems = replayed(source, chosen, progress)
    source.problems.extend(problems)
    return _shown(chosen, source, answer, replay_text)


def _shown(chosen: argparse.Namespace, source: Any, answer: Any, text: Callable[[Any], str]) -> int:
    import msgspec

    from dra_cli.plan.picture import page
    from dra_cli.plan.show import structured

    answer = msgspec.structs.replace(answer, uncertain=tuple(source.problems))
    if chosen.output == "html":
        print(page(chosen.question, source.objects, answer, text(answer)))
    else:
        print(structured(answer, chosen.output) if chosen.output else text(answer))
    if not getattr(answer, "complete", True):
        return 128 + signal.SIGINT
    return 0 if answer.good else 1
