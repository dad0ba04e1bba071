"""``dralab convert``."""

import argparse

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="manifest: a file, a folder, or - for standard input"
    )
    parser.add_argument("--output", "-o", default="yaml", help="yaml or json")
    parser.add_argument(
        "--extended-resources",
        action="store_true",
        help="turn extended resources of device plugins into claims, too",
    )
    parser.add_argument(
        "--class",
        dest="classes",
        action="append",
        metavar="RESOURCE=CLASS",
        help="the DeviceClass of an extended resource; may be repeated",
    )


def run(chosen: argparse.Namespace) -> None:
    """Print the manifests as today's, and on standard error what became of each field."""
    from dra_kube import conversion

    classes = conversion.mapping(chosen.classes or [], chosen.extended_resources)
    conversion.convert(chosen.files, chosen.output, classes)
