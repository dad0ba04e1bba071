"""Run the suite: create the directories, the cluster and the driver, and run the checks."""

import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dra_shared.jsontypes import JsonObject
from dra_shared.version import DEFAULT, Version

from dra_conformance.catalog import CHECKS
from dra_conformance.cdifiles import CdiFiles
from dra_conformance.check import Check, Result
from dra_conformance.containerdriver import ContainerDriver, is_container
from dra_conformance.driverprocess import AttachedDriver, Driver, ProcessDriver
from dra_conformance.kubelet import Kubelet
from dra_conformance.pace import Pace
from dra_conformance.runner import run as run_checks
from dra_conformance.session import Session
from dra_conformance.world import NAMESPACE, World, default_rules

#: Nodes of many clouds have names with dots, which some drivers cut off.
NODE = "node-0.example.com"


@dataclass(frozen=True)
class Options:
    """Options of a run.

    Args:
        command: the driver's program and arguments, with ``{placeholders}``; empty to attach to a running driver.
        directory: for sockets, CDI files and the API server's data; a temporary directory if None.
        node: the node's name.
        rules: the rules of the driver's role; None for the rules that charts usually grant.
        crds: CustomResourceDefinitions that the driver needs.
        parameters: opaque parameters that the driver accepts.
        announce: called with the placeholders' values before the driver starts.
    """

    command: Sequence[str] = ()
    checks: Sequence[Check] = CHECKS
    directory: Path | None = None
    node: str = NODE
    version: Version = DEFAULT
    port: int = 0
    rules: Sequence[JsonObject] | None = None
    crds: Sequence[JsonObject] = ()
    parameters: JsonObject | None = None
    metrics_url: str = ""
    pace: Pace = field(default_factory=Pace)
    environment: Mapping[str, str] = field(default_factory=dict)
    report: Callable[[Result], None] | None = None
    announce: Callable[[Mapping[str, str]], None] | None = None


async def run(options: Options) -> list[Result]:
    """Run the checks and return their results.

    Raises:
        UserError: the driver's program cannot be started.
    """
    async with contextlib.AsyncExitStack() as stack:
        root = options.directory
        if root is None:
            # /tmp, because the path of a socket has at most 107 bytes.
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dralab-", dir="/tmp")))
        root = root.absolute()
        root.mkdir(parents=True, exist_ok=True)
        rules = default_rules() if options.rules is None else options.rules
        world = await stack.enter_async_context(
            World(root, options.node, options.version, rules, port=options.port, crds=options.crds)
        )
        kubelet = Kubelet(root / "kubelet", options.pace.poll)
        cdi = await stack.enter_async_context(CdiFiles(root / "cdi"))
        values = placeholders(world, kubelet, cdi)
        if options.announce is not None:
            options.announce(values)
        driver = _driver(options, values, root)
        session = Session(
            world,
            kubelet,
            driver,
            cdi,
            options.pace,
            parameters=options.parameters,
            metrics_url=options.metrics_url,
        )
        stack.push_async_callback(session.close)
        return await run_checks(session, options.checks, {one.id: one for one in CHECKS}, options.report)


def _driver(options: Options, values: Mapping[str, str], root: Path) -> Driver:
    environment = {**_environment(values), **options.environment}
    log = root / "driver.log"
    if not options.command:
        return AttachedDriver()
    if is_container(options.command):
        return ContainerDriver(options.command, values, environment, log, root)
    return ProcessDriver(options.command, values, environment, log)


def placeholders(world: World, kubelet: Kubelet, cdi: CdiFiles) -> dict[str, str]:
    """Return the values of the placeholders that a command may contain."""
    return {
        "node_name": world.node,
        "kubeconfig": str(world.kubeconfig),
        "kubelet_dir": str(kubelet.root),
        "plugins_dir": str(kubelet.plugins),
        "registry_dir": str(kubelet.registry),
        "cdi_dir": str(cdi.directory),
        "work_dir": str(world.root),
        "namespace": NAMESPACE,
    }


def _environment(values: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that the charts of dra-example-driver and NVIDIA's driver set."""
    return {
        "NODE_NAME": values["node_name"],
        "KUBECONFIG": values["kubeconfig"],
        "NAMESPACE": values["namespace"],
        "CDI_ROOT": values["cdi_dir"],
        "KUBELET_PLUGINS_DIRECTORY_PATH": values["plugins_dir"],
        "KUBELET_REGISTRAR_DIRECTORY_PATH": values["registry_dir"],
    }
