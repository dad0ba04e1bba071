"""A driver's process: options, connection to the API server, and shutdown.

The options are those of drivers built with kubeletplugin, such as dra-example-driver.
"""

import argparse
import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dra_shared import log, service
from dra_shared.client.kubeconfig import Access, in_cluster, load
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock

from dra_driverkit.directories import CDI_DIRECTORY, KUBELET_ROOT, Directories
from dra_driverkit.errors import CheckpointError, DriverConfigError

# The interval, in seconds, at which the token of the driver's pod is read again. The kubelet renews it before
# it expires.
_TOKEN_SECONDS = 60.0


@dataclass(frozen=True)
class Surroundings:
    """The environment that a driver runs in.

    Args:
        instance: the UID of the driver's pod if its chart uses rolling updates; else empty.
        client: connected to the API server as the driver.
    """

    node_name: str
    directories: Directories
    client: Client
    instance: str = ""


Main = Callable[[Surroundings], Coroutine[Any, Any, None]]


def run(
    driver: str,
    main: Main,
    arguments: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run ``main`` until it returns, or until SIGTERM or SIGINT cancels it. Return the exit code for ``sys.exit``."""
    environment = os.environ if environment is None else environment
    options = option_parser(driver, environment).parse_args(arguments)

    async def run_main() -> None:
        try:
            async with open_surroundings(driver, options) as found:
                await main(found)
        except (DriverConfigError, CheckpointError) as error:
            raise service.CannotRun(str(error)) from error

    return service.run(driver, options.log_level, run_main)


@contextlib.asynccontextmanager
async def open_surroundings(
    driver: str, options: argparse.Namespace, clock: Clock | None = None
) -> AsyncIterator[Surroundings]:
    """Yield the environment that the options describe. See :func:`run`.

    Raises:
        KubeconfigError: the kubeconfig cannot be used, or the process has none and does not run in a pod.
    """
    access = load(Path(options.kubeconfig)) if options.kubeconfig else in_cluster()
    client = Client(
        access.server,
        user_agent=driver,
        token=access.token,
        ssl_context=access.ssl_context,
        server_name=access.server_name,
    )
    directories = Directories(
        options.kubelet_plugins_directory_path / driver,
        options.kubelet_registrar_directory_path,
        options.cdi_root,
    )
    async with client:
        refreshing = asyncio.create_task(_refresh(client, access, clock or SystemClock()), name="token")
        try:
            yield Surroundings(options.node_name, directories, client, options.pod_uid)
        finally:
            refreshing.cancel()
            await asyncio.gather(refreshing, return_exceptions=True)


def option_parser(driver: str, environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser of a driver's options. Their defaults come from the environment."""
    parser = argparse.ArgumentParser(prog=driver, description=f"The DRA driver {driver} on one node.")
    node = environment.get("NODE_NAME")
    parser.add_argument(
        "--node-name", default=node, required=not node, help="the name of the node (NODE_NAME)"
    )
    parser.add_argument(
        "--kubeconfig",
        default=environment.get("KUBECONFIG", ""),
        metavar="FILE",
        help="the file for connecting to the API server (KUBECONFIG; default: the service account of the driver's pod)",
    )
    for flag, default, text in (
        (
            "--kubelet-plugins-directory-path",
            KUBELET_ROOT / "plugins",
            "the directory that has a directory for each plugin",
        ),
        (
            "--kubelet-registrar-directory-path",
            KUBELET_ROOT / "plugins_registry",
            "the directory of registration sockets",
        ),
        ("--cdi-root", CDI_DIRECTORY, "the directory of CDI files"),
    ):
        variable = flag.removeprefix("--").replace("-", "_").upper()
        parser.add_argument(
            flag,
            type=Path,
            metavar="DIR",
            default=Path(environment.get(variable, default)),
            help=f"{text} ({variable}; default: {default})",
        )
    parser.add_argument(
        "--pod-uid",
        default=environment.get("POD_UID", ""),
        metavar="UID",
        help="the UID of the driver's pod, for rolling updates that start a new pod before the old one ends (POD_UID)",
    )
    parser.add_argument(
        "--log-level", default="info", choices=sorted(log.LEVELS), help="the least severe level to log"
    )
    return parser


async def _refresh(client: Client, access: Access, clock: Clock) -> None:
    if access.token_file is None:
        return
    while True:
        await clock.sleep(_TOKEN_SECONDS)
        with contextlib.suppress(OSError):
            client.set_token(access.token_file.read_text().strip())
