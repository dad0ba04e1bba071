"""The node agent's process."""

import argparse
import contextlib
import math
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

from dra_driverkit.errors import DriverConfigError
from dra_shared import service
from dra_shared.api.node import Taint
from dra_shared.client import kubeconfig
from dra_shared.log import logger
from dra_shared.names import label_key, label_value
from dra_shared.quantity import Quantity

from dra_node_agent.drivers.base import DriverOptions
from dra_node_agent.drivers.catalog import default_drivers, driver_options, find_driver
from dra_node_agent.drivers.placement import parse_placement
from dra_node_agent.kubelet.topologypolicies import NONE, POLICIES
from dra_node_agent.runtime.catalog import RUNTIMES
from dra_node_agent.runtime.images import ImagesError, load_images

# The value of --driver for nodes without drivers of the agent. The value of --images that is not a file.
_STRICT = "strict"
_NO_DRIVER = "none"
MOST_NODES = 10_000
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_log = logger(__name__)


def options() -> service.Options:
    """Return the command's options."""
    made = service.Options("node-agent", "dralab's nodes: kubelet, container runtime and DRA drivers")
    made.client_options()
    made.option("--data", default=".dralab", type=Path, help="the cluster's directory")
    _node_options(made)
    made.option(
        "--gpus",
        default="8xA100-SXM4-40GB",
        help="simulated GPUs of each node, or host; see docs/gpu-models.md",
    )
    made.option("--gpu-models", default=None, action="append", help="a directory with GPU models; repeatable")
    made.option(
        "--driver",
        default=None,
        action="append",
        help="a driver (gpu.nvidia.com) or the file of a profile, optionally with @NODES; repeatable; or none; see "
        "docs/driver-profiles.md",
    )
    for option in driver_options():
        made.option(f"--{option.name}", default="", help=option.help)
    made.option("--runtime", default="fake", choices=tuple(RUNTIMES), help="what runs containers")
    made.option(
        "--images",
        default=None,
        action="append",
        help="with fake: a file that describes the programs of images, or strict, which refuses programs that nothing "
        "simulates; repeatable; see docs/node-agent.md",
    )
    made.option("--network", default="", help="with docker: the engine's network for pods")
    made.option(
        "--allow-host-access",
        default=False,
        action="store_true",
        help="with docker: let pods mount the host's files, be privileged and use the host's network",
    )
    made.option("--root-dir", default=None, type=Path, help="the kubelet's directory, for a single node")
    made.option("--cdi-dir", default=None, type=Path, help="the CDI directory, for a single node")
    made.option(
        "--topology-manager-policy",
        default=NONE,
        choices=POLICIES,
        help="whether the device plugins' devices of a container have to be on one NUMA node",
    )
    made.option(
        "--address",
        default="",
        help="the nodes' address for the API server (--health-address)",
    )
    return made


def main() -> int:
    """Run the nodes until SIGTERM. Return the exit code."""
    parser = options()
    args = parser.parse_args()
    try:
        service.features(args)
        service.create_tls(args)
        if args.nodes < 0 or args.nodes > MOST_NODES:
            raise ValueError(f"--nodes must be between 1 and {MOST_NODES}")
        if args.nodes > 1 and (args.root_dir or args.cdi_dir):
            raise ValueError("--root-dir and --cdi-dir are for a single node")
        _labels(args.node_labels)
        _taints(args.register_with_taints)
        for quantity in (args.node_cpu, args.node_memory):
            Quantity.parse(quantity)
        _check_drivers(args)
        load_images(_images(args))
    except (OSError, ValueError, DriverConfigError, ImagesError) as error:
        parser.error(str(error))
    return service.run("node-agent", args.log_level, lambda: _serve(args))


def _node_options(options: service.Options) -> None:
    """Add the options for the nodes and their properties."""
    options.option(
        "--nodes",
        default=0,
        type=int,
        help="how many nodes, named node-0, node-1, …; 0: one, named after the host",
    )
    options.option(
        "--node-name", default="", help="the node's name (default: the host's), or the nodes' prefix"
    )
    options.option(
        "--node-names", default="", help="the nodes' names, separated by commas, in place of --nodes"
    )
    options.option("--node-labels", default="", help="labels of each node: key=value,…")
    options.option("--register-with-taints", default="", help="taints of each node: key=value:effect,…")
    options.option(
        "--most-grace", default=math.inf, type=float, help="the maximum number of seconds for pods to stop"
    )
    options.option(
        "--no-node-sockets",
        default=False,
        action="store_true",
        help="open sockets of nodes only if a plugin of another process needs them",
    )
    options.option(
        "--relaxed",
        default=False,
        action="store_true",
        help="do not wait for the disk when checkpoints are written; a crash of the machine may lose the last ones",
    )
    options.option("--node-cpu", default="64", help="CPUs of each node")
    options.option("--node-memory", default="512Gi", help="memory of each node")


def _check_drivers(args: argparse.Namespace) -> None:
    options = _options(args)
    chosen = _drivers(args)
    if _NO_DRIVER in chosen:
        raise ValueError(f"--driver {_NO_DRIVER} cannot be combined with other drivers")
    for text in chosen:
        find_driver(parse_placement(text, len(_node_names(args))).name, options)


def _options(args: argparse.Namespace) -> DriverOptions:
    return DriverOptions(
        driver_root=args.data / "driver-root",
        machines=args.data / "machines",
        gpus=args.gpus,
        gpu_models=tuple(map(Path, args.gpu_models or ())),
        values=_driver_options(args),
    )


def _node_names(args: argparse.Namespace) -> list[str]:
    if args.node_names:
        return list(args.node_names.split(","))
    if args.nodes:
        return [f"{args.node_name or 'node'}-{number}" for number in range(args.nodes)]
    return [args.node_name or socket.gethostname().lower()]


def _labels(text: str) -> dict[str, str]:
    """Parse labels in the form of the kubelet's ``--node-labels``.

    Raises:
        ValueError: one has no value, or the API server would reject it; in the kubelet's words.
    """
    found = {}
    for entry in filter(None, text.split(",")):
        key, equals, value = entry.partition("=")
        if not equals:
            raise ValueError(f"--node-labels: {entry!r} is not key=value")
        if problems := [*label_key(key), *label_value(value)]:
            raise ValueError(f"invalid node labels: '{key}' - {', '.join(problems)}")
        found[key] = value
    return found


def _taints(text: str) -> tuple[Taint, ...]:
    """Parse taints in the form of the kubelet's ``--register-with-taints``.

    Raises:
        ValueError: one has no effect, or the API server would reject it; in the kubelet's words.
    """
    found = []
    for entry in filter(None, text.split(",")):
        name, colon, effect = entry.rpartition(":")
        if not colon or effect not in _EFFECTS:
            raise ValueError(f"--register-with-taints: {entry!r} is not key=value:effect")
        key, _, value = name.partition("=")
        if problems := [*label_key(key), *label_value(value)]:
            raise ValueError(f"invalid taint spec: {entry}, {'; '.join(problems)}")
        found.append(Taint(key=key, value=value, effect=effect))
    return tuple(found)


def _images(args: argparse.Namespace) -> tuple[Path, ...]:
    return tuple(Path(word) for word in args.images or () if word != _STRICT)


def _driver_options(args: argparse.Namespace) -> dict[str, str]:
    return {option.name: getattr(args, option.name.replace("-", "_")) for option in driver_options()}


def _drivers(args: argparse.Namespace) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(args.driver or default_drivers(_options(args))))
    return () if chosen == (_NO_DRIVER,) else chosen


def _raise_file_limit() -> None:
    """Raise the limit of open files to the maximum, because each node has its own sockets."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(args: argparse.Namespace) -> None:
    from dra_node_agent.agent import NodeAgent, NodeAgentConfig
    from dra_node_agent.identities import USER_AGENT
    from dra_node_agent.kubelet.websocket import WebSocket

    _raise_file_limit()
    config = NodeAgentConfig(
        data=args.data,
        names=_node_names(args),
        drivers=_drivers(args),
        gpus=args.gpus,
        gpu_models=tuple(map(Path, args.gpu_models or ())),
        driver_options=_driver_options(args),
        runtime=args.runtime,
        images=_images(args),
        strict_images=_STRICT in (args.images or ()),
        topology_policy=args.topology_manager_policy,
        network=args.network,
        host_access=args.allow_host_access,
        root=args.root_dir.absolute() if args.root_dir else None,
        cdi=args.cdi_dir.absolute() if args.cdi_dir else None,
        labels=_labels(args.node_labels),
        taints=_taints(args.register_with_taints),
        most_grace=args.most_grace,
        durable=not args.relaxed,
        cpu=args.node_cpu,
        memory=args.node_memory,
        node_sockets=not args.no_node_sockets,
        address=args.address or _own_address(args.health_address),
        features=service.features(args),
        identities=kubeconfig.users(Path(args.kubeconfig)) if args.kubeconfig else {},
        guard=service.guard(args, args.address),
    )
    async with service.connect(args, USER_AGENT) as client:
        with _exit_with_message():
            agent = NodeAgent(config, client)
        listener = service.HealthServer(
            args.health_address,
            args.health_port,
            {"nodes": lambda: agent.ready},
            agent.routes(),
            lambda config, server_state, app_state: WebSocket(agent.stream, server_state),
            config.guard,
            service.create_tls(args),
        )
        async with listener:
            agent.listen_on(listener.port)
            with _exit_with_message():
                async with agent:
                    _log.info(
                        "serving the kubelets' endpoints", address=args.health_address, port=listener.port
                    )
                    await agent.wait()


@contextlib.contextmanager
def _exit_with_message() -> Iterator[None]:
    """Exit with a one-sentence message for errors that would occur again at the next start."""
    from dra_node_agent.kubelet.dra.errors import DraError

    try:
        yield
    except (DraError, DriverConfigError, ImagesError) as error:
        raise service.CannotRun(str(error)) from error
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise service.CannotRun(f"cannot make or use {error.filename}: {error.strerror}") from error


def _own_address(listening: str) -> str:
    if listening not in ("", "0.0.0.0", "::"):
        return listening
    return socket.gethostbyname(socket.gethostname())


if __name__ == "__main__":
    raise SystemExit(main())
