"""``dralab convert``."""

import argparse
import sys

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="manifest: a file, a folder, or - for standard input"
    )
    parser.add_argument("--output", "-o", default="yaml", help="yaml or json")
    parser.add_argument(
        "--extended-resources",
        action="store_true",
        help="also convert extended resources of device plugins to claims",
    )
    parser.add_argument(
        "--class",
        dest="classes",
        action="append",
        metavar="RESOURCE=CLASS",
        help="the DeviceClass of an extended resource; may be repeated",
    )


def run(chosen: argparse.Namespace) -> None:
    """Print the converted manifests, and on standard error a line for each old field.

    Raises:
        UserError: a manifest cannot be read, or (after the output) a field has no successor.
    """
    from dra_kube import conversion
    from dra_shared.errors import UserError

    classes = conversion.mapping(chosen.classes or [], chosen.extended_resources)
    found = conversion.convert(chosen.files, chosen.output, classes)
    for note in found.notes:
        print(f"# {note}", file=sys.stderr)
    print(found.text, flush=True)
    if found.lost:
        many = f"{found.lost} of the fields have" if found.lost > 1 else "1 of the fields has"
        raise UserError(f"{many} no successor, see above", conversion.INCOMPLETE)
