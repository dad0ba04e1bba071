"""``dralab new driver NAME``: a driver's project to begin with."""

import argparse
from pathlib import Path

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument("what", choices=("driver",), help="what to write")
    parser.add_argument("name", help="the driver's name, such as dongle.example.com")
    parser.add_argument(
        "--short", default="", help="what its devices and its package are called (the name's first part)"
    )
    parser.add_argument("--output", "-o", type=Path, metavar="DIR", help="where to (SHORT-driver)")


def run(chosen: argparse.Namespace) -> int:
    """Write it, and say what to do next.

    Raises:
        CommandError: the name cannot be one, or there is something already.
    """
    from dra_cli.project.writer import Names, write

    names = Names.of(chosen.name, chosen.short)
    folder = chosen.output or Path(f"{names.short}-driver")
    for path in write(names, folder):
        print(folder / path)
    print(f"\nNow: cd {folder} && pip install -e '.[test]' && pytest")
    return 0
