"""``dralab conformance``."""

import argparse
import sys
from pathlib import Path

from dra_shared.errors import UserError
from dra_shared.optiontypes import number
from dra_shared.version import DEFAULT, describe_versions

from dra_cli.commandline import Parser, suggestion

_DRIVER = "driver"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "subject",
        help="alloc, cel, devicemanager, scheduler-config or validate, with a FILE; driver, with -- COMMAND",
    )
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        help='lines of {"in": …, "out": …}, or {"cases": […]}, optionally gzipped; - for standard input',
    )
    parser.add_argument(
        "--kubernetes-version",
        default="",
        help="the version of Kubernetes that answers the cases, or that the driver runs with: "
        f"{describe_versions()} (the one that the recording names, or else 1.36, from which most were recorded; "
        f"driver: {DEFAULT})",
    )
    parser.add_argument(
        "--answers", action="store_true", help="print dralab's answers instead of comparing them"
    )
    _add_driver_options(parser.add_argument_group("driver", "options for checking a DRA driver"))


def _add_driver_options(driver: "argparse._ArgumentGroup") -> None:
    driver.add_argument("--list", action="store_true", help="list the checks, and run none")
    driver.add_argument("--explain", metavar="CHECK", default="", help="explain a check")
    driver.add_argument(
        "-k",
        default="",
        metavar="WORDS",
        help="only checks whose id has one of these words, or lacks -WORD: prepare,-health",
    )
    driver.add_argument("--output", "-o", choices=("table", "json", "junit", "markdown"), default="table")
    driver.add_argument(
        "--report",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="also write the results to a file: .xml for JUnit, .json, or .md; may be repeated",
    )
    driver.add_argument(
        "--strict",
        action="store_true",
        help="also fail for broken recommendations, and for promises that could not be tested",
    )
    driver.add_argument(
        "--crds",
        type=Path,
        metavar="FILE",
        help="manifests with CustomResourceDefinitions that the driver needs",
    )
    driver.add_argument("--role", type=Path, metavar="FILE", help="manifests with the driver's ClusterRole")
    driver.add_argument(
        "--config", type=Path, metavar="FILE", help="opaque parameters that the driver accepts"
    )
    driver.add_argument("--metrics-url", default="", metavar="URL", help="the URL of the driver's metrics")
    driver.add_argument(
        "--attach", action="store_true", help="check a driver that you start yourself; needs --directory"
    )
    driver.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="the directory for sockets, CDI files and data; its path must be short",
    )
    driver.add_argument("--node-name", help="the name of the node (node-0.example.com)")
    driver.add_argument("--port", type=number(0, 65535), default=0, help="the API server's port (any)")
    driver.add_argument(
        "--cycles",
        type=number(10),
        default=1000,
        help="how often a claim is prepared in the search for leaks (1000)",
    )
    driver.add_argument(
        "--start-timeout", type=number(1.0, None, float), default=30.0, help="seconds to register (30)"
    )


def run(chosen: argparse.Namespace) -> int:
    """Compare answers, or check a driver. Return 1 if answers differ or a promise is broken."""
    import orjson
    from dra_recordings import comparison
    from dra_shared import log

    from dra_cli import driversuite

    # Hide the logs of the compared code: standard output is for the answers.
    log.configure("dralab", "error", final=False)
    if chosen.subject == _DRIVER:
        return driversuite.run(chosen)
    if chosen.subject not in comparison.SUBJECTS:
        subjects = [*comparison.SUBJECTS, _DRIVER]
        similar = suggestion(chosen.subject, subjects)
        raise UserError(f"unknown subject {chosen.subject!r}{similar} choose {', '.join(subjects)}", 2)
    if chosen.file is None:
        raise UserError("the following arguments are required: file; see dralab conformance --help", 2)
    if chosen.answers:
        versions: dict[str, None] = {}
        for version, answer in comparison.answers(chosen.subject, chosen.file, chosen.kubernetes_version):
            versions[version] = None
            print(orjson.dumps(answer).decode())
        print(f"dralab: answered as Kubernetes {', '.join(versions)}", file=sys.stderr)
        return 0
    summary, agree = comparison.compare(chosen.subject, chosen.file, chosen.kubernetes_version)
    print(orjson.dumps(summary).decode())
    return 0 if agree else 1
