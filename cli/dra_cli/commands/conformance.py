"""``dralab conformance``."""

import argparse
from pathlib import Path

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument("subject", help="alloc, cel, devicemanager, scheduler-config or validate")
    parser.add_argument(
        "file",
        type=Path,
        help='lines of {"in": …, "out": …}, or {"cases": […]}, perhaps gzipped; - for standard input',
    )
    parser.add_argument(
        "--kubernetes-version",
        default="",
        help="the version of Kubernetes that the cases are of: 1.34, 1.35, 1.36 (alloc, cel and validate)",
    )
    parser.add_argument("--answers", action="store_true", help="print our answer to each case instead")


def run(chosen: argparse.Namespace) -> int:
    """Compare; 1 where they differ."""
    import orjson
    from dra_shared import log

    from dra_cli import conformance

    # What is compared logs as it does in a service; standard output is for the answers.
    log.configure("dralab", "error", final=False)
    if chosen.answers:
        for answer in conformance.answers(chosen.subject, chosen.file, chosen.kubernetes_version):
            print(orjson.dumps(answer).decode())
        return 0
    summary, agree = conformance.compare(chosen.subject, chosen.file, chosen.kubernetes_version)
    print(orjson.dumps(summary).decode())
    return 0 if agree else 1
