"""``dralab conformance driver``: check a DRA driver's contract with kubelet and API server."""

import argparse
import asyncio
import os
import shlex
import signal
import time
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dra_kube import manifests
from dra_kube.wholefile import whole_file
from dra_kube.yamlfile import read_yaml
from dra_shared import __version__
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject
from dra_shared.version import DEFAULT, Version

if TYPE_CHECKING:
    from dra_conformance.check import Check

T = TypeVar("T")

#: The longest directory, so that the path of a driver's socket in it has at most 107 bytes.
_LONGEST = 107 - len("/kubelet/plugins_registry/gpu.example.com-reg.sock")


#: The format of a report, by the end of its name.
_REPORTS = {".xml": "junit", ".json": "json", ".md": "markdown"}


def run(chosen: argparse.Namespace) -> int:
    """Run the suite, or what the options ask for instead. Return 1 if a promise is broken.

    Raises:
        UserError: the options contradict each other, a file cannot be used, or the driver cannot be started.
    """
    # Imported here, because the suite imports the API server and the node agent, which other commands do not need.
    from dra_conformance import show
    from dra_conformance.catalog import select

    if chosen.explain:
        print(show.explanation(_find_check(chosen.explain)))
        return 0
    checks = select(chosen.k)
    if not checks:
        raise UserError(f"no check has {chosen.k!r}; see dralab conformance driver --list", 2)
    if chosen.list:
        if chosen.output != "table":
            raise UserError("--list has no other output than its table: leave out --output", 2)
        asked = chosen.kubernetes_version
        print(show.listing(checks, _version(asked) if asked else None))
        return 0
    return _try(chosen, checks)


def _try(chosen: argparse.Namespace, checks: "Sequence[Check]") -> int:
    from dra_conformance import show
    from dra_conformance.pace import Pace
    from dra_conformance.suite import NODE, Options
    from dra_conformance.suite import run as run_suite

    _need_formats(chosen.report)
    judge = show.strictly if chosen.strict else show.leniently
    options = Options(
        command=_command(chosen),
        checks=checks,
        directory=_directory(chosen.directory),
        node=chosen.node_name or NODE,
        version=_version(chosen.kubernetes_version),
        port=chosen.port,
        rules=_rules(chosen.role) if chosen.role else None,
        crds=_crds(chosen.crds) if chosen.crds else (),
        parameters=_parameters(chosen.config) if chosen.config else None,
        metrics_url=_metrics_url(chosen.metrics_url),
        pace=Pace(start=chosen.start_timeout, cycles=chosen.cycles),
        report=(lambda one: print(show.line(judge(one)), flush=True)) if chosen.output == "table" else None,
        announce=_announce if chosen.attach else None,
    )
    began = time.monotonic()
    try:
        results = [judge(one) for one in asyncio.run(until_terminated(run_suite(options)))]
    except asyncio.CancelledError:
        raise UserError("terminated", 128 + signal.SIGTERM) from None
    seconds = time.monotonic() - began
    about = {
        "command": shlex.join(options.command) or "a driver that was running",
        "kubernetesVersion": str(options.version),
        "dralab": __version__,
    }
    for file in chosen.report:
        with whole_file(file) as target:
            target.write(f"{show.FORMATS[_REPORTS[file.suffix]](results, seconds, about)}\n".encode())
    if chosen.output == "table":
        if text := show.list_hidden(results):
            print(f"\n{text}")
        print(f"\nKubernetes {options.version}: {show.summary(results, seconds)}")
    else:
        print(show.FORMATS[chosen.output](results, seconds, about))
    return 0 if show.is_passed(results) else 1


async def until_terminated(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work. SIGTERM cancels it, so that it can stop the driver."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def _need_formats(files: "Sequence[Path]") -> None:
    for file in files:
        if file.suffix not in _REPORTS:
            raise UserError(f"--report {file}: its name must end with {', '.join(_REPORTS)}", 2)


def _find_check(name: str) -> "Check":
    from dra_conformance.catalog import CHECKS

    for check in CHECKS:
        if check.id == name:
            return check
    raise UserError(f"unknown check {name!r}; see dralab conformance driver --list", 2)


def _command(chosen: argparse.Namespace) -> list[str]:
    command = list(chosen.rest)
    if chosen.file is not None:
        raise UserError("the driver's command follows --: dralab conformance driver -- COMMAND", 2)
    if chosen.attach and command:
        raise UserError("--attach is for a driver that you start yourself: leave out the command", 2)
    if chosen.attach and chosen.directory is None:
        raise UserError("--attach needs --directory, which the driver is started with", 2)
    if not chosen.attach and not command:
        raise UserError("give the driver's command after --, or --attach", 2)
    return command


def _directory(folder: Path | None) -> Path | None:
    """Return the directory if it has no earlier run, and its path is short enough for sockets."""
    if folder is None:
        return None
    if (folder / "apiserver").exists():
        raise UserError(f"{folder} has an earlier run: delete it, or give another folder", 2)
    length = len(os.fsencode(folder.absolute()))
    if length > _LONGEST:
        raise UserError(f"{folder} is too long for sockets: {length} bytes, and {_LONGEST} are the most", 2)
    return folder


def _metrics_url(text: str) -> str:
    if text and not text.startswith(("http://", "https://")):
        raise UserError(f"--metrics-url {text} is not an address: it must begin with http:// or https://", 2)
    return text


def _version(text: str) -> Version:
    try:
        return Version.parse(text) if text else DEFAULT
    except ValueError as error:
        raise UserError(str(error), 2) from error


def _rules(path: Path) -> list[JsonObject]:
    """Return the rules of all ClusterRoles and Roles in the manifests."""
    found = [
        rule
        for one in manifests.load([str(path)])
        if one.get("kind") in ("ClusterRole", "Role")
        for rule in one.get("rules") or ()
    ]
    if not found:
        raise UserError(f"{path} has no ClusterRole with rules", 2)
    return found


def _crds(path: Path) -> list[JsonObject]:
    """Return the CustomResourceDefinitions in the manifests."""
    found: list[JsonObject] = [
        dict(one) for one in manifests.load([str(path)]) if one.get("kind") == "CustomResourceDefinition"
    ]
    if not found:
        raise UserError(f"{path} has no CustomResourceDefinition", 2)
    return found


def _parameters(path: Path) -> JsonObject:
    """Return the opaque parameters in the file."""
    found = read_yaml(path)
    if not isinstance(found, dict):
        raise UserError(f"{path} is not an object", 2)
    return found


def _announce(values: Mapping[str, str]) -> None:
    print("Start the driver now, with:")
    for name, value in values.items():
        print(f"  {name:14} {value}")
    print(flush=True)
