"""``dralab new driver NAME`` writes a driver's project; ``dralab new examples`` writes the examples of the docs."""

import argparse
from pathlib import Path

from dra_shared.errors import UserError

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("what", choices=("driver", "examples"), help="what to write")
    parser.add_argument("name", nargs="?", default="", help="the driver's name, such as dongle.example.com")
    parser.add_argument(
        "--short", default="", help="the name of its devices and its package (the first part of its name)"
    )
    parser.add_argument(
        "--output", "-o", type=Path, metavar="DIR", help="the folder to write (SHORT-driver, examples)"
    )


def run(chosen: argparse.Namespace) -> int:
    """Write the files, and print what to do next.

    Raises:
        UserError: the name is invalid, or the folder is not empty.
    """
    if chosen.what == "driver":
        _write_driver(chosen)
    else:
        _write_examples(chosen)
    return 0


def _write_driver(chosen: argparse.Namespace) -> None:
    from dra_cli.project.writer import Names, write

    names = Names.of(chosen.name, chosen.short)
    folder = chosen.output or Path(f"{names.short}-driver")
    for path in write(names, folder):
        print(folder / path)
    print(f"\nNow: cd {folder} && pip install -e '.[test]' && pytest")


def _write_examples(chosen: argparse.Namespace) -> None:
    """Copy the examples. Files that exist stay as they are: a checkout has them, and users edit them."""
    from dra_lab import checkout

    if chosen.name or chosen.short:
        raise UserError("a name and --short are for a driver", 2)
    target = chosen.output or Path("examples")
    source = checkout.folder("examples")
    written = 0
    try:
        for file in sorted(path for path in source.rglob("*") if path.is_file()):
            copy = target / file.relative_to(source)
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(file.read_bytes())
                written += 1
    except OSError as error:
        raise UserError(f"cannot write {error.filename}: {error.strerror}") from error
    print(
        f"{written} new files in {target}; `dralab up --detach`, then `dralab apply -f {target}/quickstart`"
    )
