"""``dralab export``: a world as one file."""

import argparse
import sys
from pathlib import Path

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Declare what it takes."""
    from dra_cli.plan.sources import world_options

    parser.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help="where to (default: standard output)"
    )
    parser.switch("--anonymize", help="rename everything, consistently, and leave out what decides nothing")
    world_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Write the world's objects as one List; what could not be read is named on standard error."""
    import orjson

    from dra_cli.plan.anonymous import anonymized
    from dra_cli.plan.sources import chosen_documents, plain_objects

    problems: list[str] = []
    objects = list(plain_objects(chosen_documents(chosen, problems)))
    for problem in problems:
        print(f"dralab: {problem}", file=sys.stderr)
    if chosen.anonymize:
        objects = anonymized(objects)
    text = orjson.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, option=orjson.OPT_INDENT_2)
    if chosen.output is None:
        sys.stdout.write(text.decode() + "\n")
    else:
        chosen.output.write_bytes(text + b"\n")
