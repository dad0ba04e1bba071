"""``dralab plan``: ask the planner what the scheduler would do."""

import argparse
import contextlib
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from dra_shared.errors import UserError
from dra_shared.version import DEFAULT, VERSIONS

from dra_cli.commandline import Parser

# Each question has a subparser for its words.
TAKES_ALL = True

_OUTPUTS = ("", "json", "yaml", "csv", "html")
_VERSIONS = [str(version) for version in VERSIONS]


class _Question(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help", 2)


def options(parser: Parser) -> None:
    """Add a subparser for each question."""
    from dra_scheduler.plan.questions.catalog import QUESTIONS

    questions = parser.add_subparsers(
        dest="question", required=True, metavar="QUESTION", parser_class=_Question
    )
    for question in QUESTIONS.values():
        words = questions.add_parser(
            question.name, help=question.about, description=question.about, allow_abbrev=False
        )
        question.add_words(words)
        _common(words)


def _common(parser: argparse.ArgumentParser) -> None:
    from dra_cli.worldoptions import world_options

    parser.add_argument(
        "--output", "-o", default="", help="json, yaml, csv or html (a report) instead of text"
    )
    parser.add_argument(
        "--feature-gates", default="", help="feature gates: A=true,B=false; others are as in the cluster"
    )
    parser.add_argument(
        "--kubernetes-version",
        default="",
        choices=_VERSIONS,
        help=f"the version of Kubernetes whose scheduler decides (default: the cluster's, else {DEFAULT})",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="the scheduler's KubeSchedulerConfiguration"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="the seed for the choice between equally good nodes (0)"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="do not show progress")
    world_options(parser)


def run(chosen: argparse.Namespace) -> int:
    """Answer the question.

    Return 0 for yes, 1 for no, 3 for yes except for workloads of unknown kinds, and 130 if interrupted.

    Raises:
        UserError: there is no such output.
    """
    if chosen.output not in _OUTPUTS:
        raise UserError(
            f"unknown output {chosen.output!r}: choose json, yaml, csv or html, or leave it out", 2
        )
    from dra_scheduler.plan.errors import PlanError
    from dra_scheduler.plan.garbage import collect_rarely

    with collect_rarely():
        try:
            return _answer(chosen)
        except PlanError as error:
            raise UserError(str(error)) from error


def _answer(chosen: argparse.Namespace) -> int:
    """Ask a planner for the chosen world, and print the answer."""
    from dra_scheduler.plan.engine import Engine
    from dra_scheduler.plan.planner import Planner
    from dra_scheduler.plan.questions.catalog import QUESTIONS
    from dra_scheduler.plan.report.page import Inputs, write_report
    from dra_worlds.filedoor import FileDoor
    from dra_worlds.working import Progress, Settings

    from dra_cli.worldoptions import chosen_world, describe_source

    question = QUESTIONS[chosen.question]
    source = chosen_world(chosen)
    settings = Settings(
        chosen.feature_gates, chosen.kubernetes_version, chosen.config, chosen.seed, source.running
    )
    with Progress(question.counted, quiet=chosen.quiet) as progress:
        planner = Planner(
            source.objects,
            Engine(settings.setup(), running=progress.goes_on),
            problems=source.problems,
            running=progress.goes_on,
            progress=progress.at,
        )
        with contextlib.closing(planner):
            door = FileDoor(planner, settings, getattr(chosen, "namespace", None))
            asked = question.read_words(chosen, source.objects)
            answer = question.ask(door, asked)
            if chosen.output == "html":
                inputs = Inputs(describe_source(chosen), datetime.now(UTC), _other_inputs(chosen))
                print(write_report(question, asked, answer, door, inputs), end="")
    if chosen.output != "html":
        print(_format(question, answer, chosen.output))
    return _code(answer)


def _other_inputs(chosen: argparse.Namespace) -> dict[str, str]:
    """Return the files that the answer depends on besides the world and the pods."""
    names = {"catalog": "Catalogue", "config": "Scheduler configuration", "changes": "Changes"}
    return {name: str(file) for word, name in names.items() if (file := getattr(chosen, word, None))}


def _format(question: Any, answer: Any, output: str) -> str:
    """Return the answer as text, JSON, YAML or CSV."""
    from dra_scheduler.plan.answers import complete, csv_of

    if not output:
        return str(question.text(answer))
    if output == "csv":
        return csv_of(question, answer).rstrip("\n")

    value = complete(answer)
    if output == "json":
        import orjson

        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False)).rstrip()


def _code(answer: Any) -> int:
    import msgspec
    from dra_worlds.wanted import LEFT_OUT

    if not getattr(answer, "complete", True):
        return 128 + signal.SIGINT
    if answer.good:
        return 0
    # If workloads of unknown kinds were left out, and the answer is no only because of them, return LEFT_OUT.
    left_out = getattr(answer, "left_out", ())
    return LEFT_OUT if left_out and msgspec.structs.replace(answer, left_out=()).good else 1
