"""``dralab plan``: what the scheduler would do, asked of a world in memory."""

import argparse
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from dra_shared.errors import UserError
from dra_shared.version import DEFAULT, VERSIONS

from dra_cli.commandline import Parser, number

# The words after a question are read by a parser of its own.
TAKES_ALL = True

_OUTPUTS = ("", "json", "yaml", "html")
_VERSIONS = [str(version) for version in VERSIONS]


class _Question(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help", 2)


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
        each.add_argument("nodes_named", nargs="*", metavar="NODE")
    upgrade = question("upgrade", "nodes are drained one by one and come back: in which order", _moves)
    upgrade.add_argument("nodes_named", nargs="*", metavar="NODE", help="all nodes unless some are named")
    for each in (drain, remove, upgrade):
        each.add_argument("--selector", "-l", default="", help="nodes with these labels, in place of names")
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
    from dra_cli.worldoptions import world_options

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
    """Answer the question; 0: yes, 1: no, 3: yes without workloads of unknown kinds, 130: interrupted.

    Raises:
        UserError: there is no such output.
    """
    if chosen.output not in _OUTPUTS:
        raise UserError(f"unknown output {chosen.output!r}: choose json, yaml or html, or leave it out", 2)
    from dra_scheduler.plan.errors import PlanError
    from dra_scheduler.plan.garbage import collect_rarely

    with collect_rarely():
        try:
            code: int = chosen.answer(chosen)
        except PlanError as error:
            raise UserError(str(error)) from error
    return code


def _fit(chosen: argparse.Namespace) -> int:
    from dra_worlds import show

    from dra_cli import questions

    return _answer(chosen, "placed", lambda planner, _: questions.fit(planner, chosen), show.fit_text)


def _moves(chosen: argparse.Namespace) -> int:
    from dra_worlds import show

    from dra_cli import questions

    return _answer(chosen, "tried", lambda planner, _: questions.moves(planner, chosen), show.moves_text)


def _change(chosen: argparse.Namespace) -> int:
    from dra_worlds import show

    from dra_cli import questions

    return _answer(chosen, "tried", lambda p, source: questions.change(p, source, chosen), show.change_text)


def _nodes(chosen: argparse.Namespace) -> int:
    from dra_worlds import show

    from dra_cli import questions

    return _answer(chosen, "tried", lambda planner, _: questions.nodes(planner, chosen), show.purchase_text)


def _pack(chosen: argparse.Namespace) -> int:
    from dra_worlds import show

    from dra_cli import questions

    return _answer(chosen, "placed", lambda planner, _: questions.pack(planner, chosen), show.packing_text)


def _replay(chosen: argparse.Namespace) -> int:
    from dra_worlds import show

    from dra_cli import questions

    return _answer(chosen, "arrived", lambda p, source: questions.replay(p, source, chosen), show.replay_text)


def _answer(
    chosen: argparse.Namespace, counted: str, ask: Callable[[Any, Any], Any], text: Callable[[Any], str]
) -> int:
    """Ask a planner for the chosen world, and print the answer."""
    from dra_worlds.picture import page
    from dra_worlds.show import structured
    from dra_worlds.working import Progress

    from dra_cli.questions import planner
    from dra_cli.worldoptions import chosen_world

    source = chosen_world(chosen)
    with (
        Progress(counted, quiet=chosen.quiet) as progress,
        contextlib.closing(planner(source, chosen, progress)) as asked,
    ):
        answer = ask(asked, source)
    if chosen.output == "html":
        print(page(chosen.question, source.objects, answer, text(answer)))
    else:
        print(structured(answer, chosen.output) if chosen.output else text(answer))
    return _code(answer)


def _code(answer: Any) -> int:
    import msgspec
    from dra_worlds.wanted import LEFT_OUT

    if not getattr(answer, "complete", True):
        return 128 + signal.SIGINT
    if answer.good:
        return 0
    # Yes as far as it is known: workloads of unknown kinds were left out.
    left_out = getattr(answer, "left_out", ())
    return LEFT_OUT if left_out and msgspec.structs.replace(answer, left_out=()).good else 1
