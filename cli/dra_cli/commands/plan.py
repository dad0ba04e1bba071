"""``dralab plan``: what the scheduler would do, asked of a world in memory."""

import argparse
import signal
from typing import NoReturn

from dra_cli.commandline import Parser, number
from dra_cli.errors import CommandError

# The words after a question are read by a parser of its own.
TAKES_ALL = True


class _Question(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; see {self.prog} --help", 2)


def options(parser: Parser) -> None:
    """Declare what it takes."""
    from dra_cli.plan.sources import world_options

    questions = parser.add_subparsers(
        dest="question", required=True, metavar="QUESTION", parser_class=_Question
    )
    fit = questions.add_parser("fit", help="whether pods fit, how many, where, and what would have to change")
    fit.add_argument("file", help="manifests: a file, a folder, or - for standard input")
    many = fit.add_mutually_exclusive_group()
    many.add_argument("--count", type=number(1), help="so many copies of the pods in FILE")
    many.add_argument("--max", action="store_true", dest="most", help="as many copies as fit")
    _common(fit)
    world_options(fit)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--namespace", "-n", help="namespace of manifests that name none (default: default)")
    parser.add_argument("--output", "-o", default="", help="json or yaml instead of text")
    parser.add_argument("--feature-gates", default="", help="feature gates: A=true,B=false")
    parser.add_argument("--seed", type=int, default=0, help="decides between nodes that are equally good (0)")
    parser.add_argument("--quiet", "-q", action="store_true", help="show no progress")


def run(chosen: argparse.Namespace) -> int:
    """Answer the question; 0: yes, 1: no, 130: interrupted."""
    return _fit(chosen)


def _fit(chosen: argparse.Namespace) -> int:
    import msgspec
    from dra_scheduler.plan.fit import Fitter

    from dra_cli.plan.show import fit_text, structured
    from dra_cli.plan.sources import chosen_world
    from dra_cli.plan.wanted import wanted
    from dra_cli.plan.working import Progress, simulation

    source = chosen_world(chosen)
    asked = wanted(chosen.file, source.objects, chosen.namespace)
    progress = Progress("placed", quiet=chosen.quiet)
    with progress:
        world = simulation(source.objects, asked, chosen.feature_gates, chosen.seed, progress.running)
        answer = Fitter(world, asked, progress.at).answer(chosen.count, most=chosen.most)
    answer = msgspec.structs.replace(answer, uncertain=tuple(source.problems))
    print(structured(answer, chosen.output) if chosen.output else fit_text(answer))
    if not answer.complete:
        return 128 + signal.SIGINT
    return 0 if answer.good else 1
