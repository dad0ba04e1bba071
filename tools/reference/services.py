"""The flags of the services, from their parsers."""

import argparse
import importlib
from collections.abc import Iterator

from dra_shared.service import Options

from tools.reference.arguments import arguments
from tools.reference.markdown import Page, code

_SERVICES = ("apiserver", "scheduler", "controller", "node-agent")


def page() -> Page:
    """All services with their flags."""
    return Page(
        "reference/services.md",
        "Services' flags",
        "The flags of each service, which are environment variables too: `--health-port` of the scheduler is "
        "`DRALAB_SCHEDULER_HEALTH_PORT`, or `DRALAB_HEALTH_PORT` for every service that has it. More about them: "
        "[Configuration](../configuration.md).",
        "\n\n".join(_services()),
    )


def _services() -> Iterator[str]:
    for name in _SERVICES:
        parser: Options = importlib.import_module(f"dra_{name.replace('-', '_')}.main").options()
        yield f"## {parser.prog}"
        yield f"{(parser.description or '').rstrip('.')}."
        yield arguments(parser, _default)


def _default(action: argparse.Action) -> str:
    value = action.default
    if value is None or value is False or str(value) in ("", "inf"):
        return ""
    return code("on" if value is True else str(value))
