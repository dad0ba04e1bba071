"""``dralab up``."""

import argparse
import asyncio
import contextlib
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dra_kube.access import default_data
from dra_shared.boundedfiles import open_file
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject
from dra_shared.optiontypes import number
from dra_shared.retention import parse_retention
from dra_shared.version import DEFAULT, describe_versions

from dra_cli.access import data_option
from dra_cli.commandline import Parser

if TYPE_CHECKING:
    from dra_lab.clusteroptions import ClusterOptions
    from dra_shared.api.resources import Resource
    from dra_worlds.fleet import Group, Pool
# The value of --images that is not the name of a file.
_STRICT = Path("strict")


def options(parser: Parser) -> None:
    """Add the options."""
    _size(parser)
    _storage(parser)
    _services(parser)
    _protection(parser)
    _nodes(parser)
    data_option(parser)


def _size(parser: Parser) -> None:
    parser.add_argument(
        "--filename",
        "-f",
        type=Path,
        metavar="FLEET",
        help="a file that describes the cluster's pools of nodes (a fleet); see docs/configuration.md#fleets",
    )
    parser.add_argument(
        "--nodes",
        action="append",
        type=nodes,
        default=[],
        metavar="COUNT[:GPUS][@ZONE]",
        help="the number of simulated nodes (2); 0: you connect your own; may be repeated: 4000:8xA100-SXM4-40GB@eu-1a",
    )
    parser.add_argument(
        "--gpus",
        default="",
        help="GPUs of each node (8xA100-SXM4-40GB): COUNTxMODEL[:LAYOUT],… or host; see docs/gpu-models.md",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="SOURCE",
        help="start from a snapshot, by name or file, from a dump, or from a kubeconfig's cluster, which is only "
        "read; see docs/plan.md and docs/history.md",
    )
    parser.add_argument(
        "--driver",
        action="append",
        default=[],
        help="a driver of each node: a name, a profile file, or none; may be repeated; NAME@0,2-4: on these nodes only",
    )
    parser.add_argument(
        "--port", type=number(0, 65535), default=8080, help="the API server's port on loopback (8080); 0: any"
    )
    parser.add_argument(
        "--listen",
        type=own_address,
        default="127.0.0.1",
        help="address that the API server listens on; 0.0.0.0 in a container whose port is published",
    )
    parser.add_argument("--detach", "-d", action="store_true", help="return once everything is ready")


def nodes(text: str) -> "Group":
    """Parse a value of ``--nodes``.

    Raises:
        ArgumentTypeError: it is not a group of nodes.
    """
    from dra_worlds.fleet import group

    try:
        return group(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def own_address(text: str) -> str:
    """Return the text if it is an address or a name of this machine.

    Raises:
        ArgumentTypeError: nothing can listen on it here.
    """
    try:
        with socket.socket(socket.AF_INET6 if ":" in text else socket.AF_INET) as listener:
            listener.bind((text, 0))
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise argparse.ArgumentTypeError(f"{text!r} is not an address of this machine: {reason}") from None
    return text


def history(text: str) -> str:
    """Return the value of ``--history``, which may be empty, for the API server.

    Raises:
        ValueError: it is not a retention.
    """
    # argparse also parses the default, which is empty.
    if text:
        parse_retention(text)
    return text


def operators(text: str) -> list[str]:
    """Parse a value of ``--with``.

    Raises:
        ArgumentTypeError: there is no such operator.
    """
    from dra_controller.jobkinds.operators import parse_operators

    try:
        return sorted(parse_operators(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _storage(parser: Parser) -> None:
    parser.switch("--relaxed", help="do not wait for the disk after each write")
    parser.add_argument(
        "--apiservers",
        type=number(1, 16),
        default=1,
        help="the number of API servers on one PostgreSQL (1): services write to the first and read from the others; "
        "see docs/scaling.md",
    )
    parser.add_argument(
        "--database",
        default="",
        help="the database: postgresql://user@host/database, or memory:, which lasts until the API server ends",
    )
    parser.add_argument(
        "--history",
        default="",
        type=history,
        help="how much history to keep: all, 24h, 2Gi or 24h,2Gi (default: the value of the last start, or 5m)",
    )


def _services(parser: Parser) -> None:
    parser.add_argument(
        "--kubernetes-version",
        default="",
        help=f"the version of Kubernetes to follow: {describe_versions()}; the default is {DEFAULT}; "
        "1.36,node-agent=1.34 for an older service; see docs/versions.md",
    )
    parser.add_argument("--feature-gates", default="", help="feature gates of all services: A=true,B=false")
    parser.add_argument(
        "--scheduler-config", type=Path, help="file with a KubeSchedulerConfiguration for the scheduler"
    )
    parser.add_argument(
        "--runtime-config",
        default="",
        help="API versions to serve, on top of api/all=true; resource.k8s.io/classic=true for the older DRA",
    )
    parser.add_argument(
        "--speed",
        type=number(0.1, 1000, float),
        default=1.0,
        help="the speed of time for all services (1): with 10, a lease of 40 seconds expires after 4",
    )
    parser.add_argument(
        "--grace",
        type=number(0, None, float),
        help="the longest grace period of pods, in seconds, whatever they specify",
    )
    parser.add_argument("--log-level", default="info", help="debug, info, warning or error")
    parser.add_argument(
        "--with",
        dest="operators",
        action="append",
        type=operators,
        default=[],
        metavar="OPERATOR",
        help="define the kinds of these operators and create their pods: jobset, lws, ray, mpi, trainer; "
        "comma-separated, may be repeated; see docs/job-kinds.md",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        help="do not start scheduler, controller or node-agent, so that you can run your own; may be repeated",
    )


def _protection(parser: Parser) -> None:
    parser.add_argument(
        "--authorization-mode",
        default="",
        help="AlwaysAllow; RBAC: roles decide; Node,RBAC: in addition, nodes may access the objects that their pods "
        "need (default with --tls); see docs/authorization.md",
    )
    parser.switch(
        "--tls",
        help="authenticate everybody by certificates, signed by a CA in DIR/auth; see docs/security.md",
    )
    parser.add_argument(
        "--tls-san",
        action="append",
        default=[],
        metavar="NAME",
        help="with --tls: another name or address of the API server; may be repeated",
    )
    parser.switch(
        "--anonymous-auth",
        default=None,
        help="accept requests without a token (default: yes, except with --runtime docker)",
    )


def _nodes(parser: Parser) -> None:
    parser.switch(
        "--node-sockets",
        default=None,
        help="open all sockets of each node (default: for up to 100 nodes); otherwise only those that plugins need",
    )
    parser.add_argument("--runtime", default="fake", help="container runtime: fake or docker")
    parser.add_argument(
        "--allow-host-access",
        action="store_true",
        help="with docker: pods may mount the host's files, be privileged, use its network",
    )
    parser.add_argument("--nvidia-gates", default="", help="feature gates of the NVIDIA driver")
    parser.add_argument(
        "--gpu-models",
        action="append",
        default=[],
        help="folder with GPU models of your own; may be repeated",
    )
    parser.add_argument(
        "--images",
        action="append",
        type=Path,
        default=[],
        help="file that describes the programs of images, or strict, which refuses programs that nothing simulates; "
        "may be repeated",
    )
    parser.add_argument("--consumable-shares", default="", help="the NVIDIA driver's option of the same name")
    parser.add_argument(
        "--imex-mode",
        default="",
        help="NVIDIA's driver for compute domains: driverManaged or hostManaged (driverManaged)",
    )
    parser.add_argument(
        "--mig-strategy", default="", help="NVIDIA's device plugin: none, single or mixed (none)"
    )
    parser.add_argument(
        "--device-list-strategy",
        default="",
        help="NVIDIA's device plugin: envvar, volume-mounts, cdi-annotations, cdi-cri (envvar)",
    )
    parser.add_argument(
        "--device-plugin-config",
        type=Path,
        help="NVIDIA's device plugin: its config file, as for time-slicing",
    )


def run(chosen: argparse.Namespace) -> None:
    """Start the cluster."""
    from dra_lab.forkserver import fork_servers

    with contextlib.ExitStack() as stack:
        # First of all: before any import that the services do not need, and before any thread is started.
        servers = [] if chosen.detach else fork_servers()
        forks = [stack.enter_context(contextlib.closing(server)) for server in servers]
        from dra_lab import run as processes

        options = read_options(chosen)
        if chosen.detach:
            print(processes.detach(chosen.data, sys.argv[1:], processes.total(options)))
        else:
            asyncio.run(processes.up(chosen.data, options, forks))


class _Start(NamedTuple):
    """The initial content of a cluster: pools of nodes, objects, their history or a snapshot, and feature gates."""

    pools: "Sequence[Pool]"
    objects: "Sequence[tuple[Resource[Any], JsonObject]]"
    past: Path | None
    snapshot: Path | None
    feature_gates: str


def _start(chosen: argparse.Namespace) -> _Start:
    """Return the initial content, from ``--from``, ``--filename`` and ``--nodes``.

    Raises:
        UserError: one of their files cannot be used, or they contradict each other.
    """
    from dra_lab.restore.past import past
    from dra_lab.restore.reading import Restored, read_source
    from dra_lab.snapshots import find, pools_of
    from dra_worlds import fleet

    if chosen.filename or chosen.source:
        _reject_nodes(chosen)
    # The snapshot may be another cluster's.
    snapshot = find(chosen.source, (chosen.data, default_data())) if chosen.source else None
    found = (
        read_source(chosen.source, chosen.data) if chosen.source and not snapshot else Restored([], [], {})
    )
    objects = found.objects
    pools = pools_of(snapshot) if snapshot else found.pools
    # The past is only restored into the cluster's own database file.
    before = past(chosen.source, chosen.data) if objects and not chosen.database else None
    if chosen.filename:
        pools = [*pools, *fleet.read(chosen.filename)]
    elif not chosen.source:
        groups = chosen.nodes or [fleet.Group(2)]
        pools = fleet.pools_of(groups, chosen.gpus or fleet.DEFAULT_GPUS, tuple(chosen.driver))
    try:
        gates = found.feature_gates(chosen.feature_gates, chosen.kubernetes_version)
    except ValueError as error:
        raise UserError(str(error), 2) from error
    return _Start(pools, objects, before, snapshot, gates)


def _reject_nodes(chosen: argparse.Namespace) -> None:
    """Reject options that describe nodes, because the nodes come from a file.

    Raises:
        UserError: an option describes nodes.
    """
    nodes = {"--nodes": chosen.nodes, "--gpus": chosen.gpus, "--driver": chosen.driver}
    given = [option for option, value in nodes.items() if value]
    if given:
        source = "--filename" if chosen.filename else "--from"
        raise UserError(f"{', '.join(given)}: the nodes are those of {source}", 2)


def _check_readable(chosen: argparse.Namespace) -> None:
    """Check that the services' files can be read.

    Raises:
        UserError: a file cannot be read.
    """
    for file in (*_image_files(chosen), chosen.scheduler_config, chosen.device_plugin_config):
        try:
            if file is not None:
                open_file(file).close()
        except OSError as error:
            raise UserError(f"cannot read {file}: {error.strerror}", 2) from error


def _image_files(chosen: argparse.Namespace) -> tuple[Path, ...]:
    return tuple(file for file in chosen.images if file != _STRICT)


def read_options(chosen: argparse.Namespace) -> "ClusterOptions":
    """Return the cluster's options.

    Raises:
        UserError: one of the files cannot be used.
    """
    from dra_lab.clusteroptions import ClusterOptions

    _check_readable(chosen)
    start, plugin = _start(chosen), chosen.device_plugin_config
    return ClusterOptions(
        nodes=0,
        fleet=tuple(start.pools),
        node_sockets=chosen.node_sockets,
        restored=() if start.past else tuple(start.objects),
        past=start.past,
        snapshot=start.snapshot,
        apiservers=chosen.apiservers,
        port=chosen.port,
        listen=chosen.listen,
        runtime=chosen.runtime,
        allow_host_access=chosen.allow_host_access,
        relaxed=chosen.relaxed,
        database=chosen.database,
        history=chosen.history or ("all" if start.past else ""),
        kubernetes_version=chosen.kubernetes_version,
        feature_gates=start.feature_gates,
        runtime_config=chosen.runtime_config,
        authorization_mode=chosen.authorization_mode,
        anonymous_auth=chosen.anonymous_auth,
        tls=chosen.tls,
        tls_hosts=tuple(chosen.tls_san),
        driver_options={
            "nvidia-gates": chosen.nvidia_gates,
            "consumable-shares": chosen.consumable_shares,
            "imex-mode": chosen.imex_mode,
            "mig-strategy": chosen.mig_strategy,
            "device-list-strategy": chosen.device_list_strategy,
            "device-plugin-config": str(plugin.absolute()) if plugin is not None else "",
        },
        gpu_models=tuple(chosen.gpu_models),
        images=_image_files(chosen),
        strict_images=_STRICT in chosen.images,
        scheduler_config=chosen.scheduler_config,
        speed=chosen.speed,
        grace=chosen.grace,
        log_level=chosen.log_level,
        without=tuple(chosen.without),
        operators=tuple(dict.fromkeys(name for names in chosen.operators for name in names)),
    )
