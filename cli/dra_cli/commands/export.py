"""``dralab export``: write a world to one file."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from dra_kube.wholefile import whole_file
from dra_shared.jsontext import dumps

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    from dra_cli.worldoptions import world_options

    parser.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help="the file to write (default: standard output)"
    )
    parser.switch(
        "--anonymize", help="rename everything consistently, and drop all that does not affect scheduling"
    )
    world_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Write the world's objects as one List. Report what could not be read on standard error."""
    from dra_worlds.anonymous import anonymize
    from dra_worlds.reading import to_objects
    from dra_worlds.sources import plain_objects

    from dra_cli.worldoptions import chosen_documents

    problems: list[str] = []
    documents = chosen_documents(chosen, problems)
    objects = anonymize(to_objects(documents, problems)) if chosen.anonymize else plain_objects(documents)
    if chosen.output is None:
        _write(objects, sys.stdout.buffer)
        sys.stdout.flush()
    else:
        with whole_file(chosen.output) as file:
            _write(objects, file)
    for problem in problems:
        print(f"dralab: {problem}", file=sys.stderr)


def _write(objects: Iterable[dict[str, Any]], file: IO[bytes]) -> None:
    """Write a List object by object, so that a large one is never in memory as a whole."""
    import orjson

    between = b'{\n  "apiVersion": "v1",\n  "kind": "List",\n  "items": ['
    for obj in objects:
        text = dumps(obj, option=orjson.OPT_INDENT_2).replace(b"\n", b"\n    ")
        file.write(between + b"\n    " + text)
        between = b","
    file.write(b"\n  ]\n}\n" if between == b"," else between + b"]\n}\n")
