"""The controller process.

Mirrors cmd/kube-controller-manager/app/options.
"""

import argparse
from pathlib import Path

from dra_shared import service
from dra_shared.client.terms import Terms
from dra_shared.durations import parse
from dra_shared.log import logger

from dra_controller.jobkinds.operators import parse_operators
from dra_controller.names import select

# Upstream's name. The API server records it as the manager of each field that a controller writes.
_USER_AGENT = "kube-controller-manager/v{} dralab-controller"

_log = logger(__name__)


def options() -> service.Options:
    """Return the options of the command."""
    made = service.Options("controller", "dralab's controllers")
    made.client_options()
    made.option(
        "--controllers",
        default="*",
        help="comma-separated: * for all, a name, or -name to leave one out; by kube-controller-manager's names; "
        "see docs/controllers/README.md",
    )
    made.option(
        "--leader-elect",
        default=False,
        action="store_true",
        help="work only while holding the Lease kube-system/kube-controller-manager",
    )
    made.option(
        "--use-service-account-credentials",
        default=False,
        action="store_true",
        help="give each controller the identity of a service account in kube-system, and its role",
    )
    made.option(
        "--leader-elect-lease-duration",
        default="15s",
        help="how long a standby waits after the leader's last renewal of the Lease before it takes over",
    )
    made.option(
        "--leader-elect-renew-deadline",
        default="10s",
        help="how long a leader tries to renew the Lease before it stops working",
    )
    made.option(
        "--leader-elect-retry-period",
        default="2s",
        help="how often a leader renews the Lease and a standby checks it",
    )
    made.option(
        "--node-monitor-grace-period",
        default="50s",
        help="how long a node may be silent before it counts as lost, such as 50s or 1m30s",
    )
    made.option(
        "--root-ca-file",
        default=None,
        type=Path,
        help="certificates to give to pods as kube-root-ca.crt (default: the kubeconfig's)",
    )
    made.option(
        "--with",
        dest="operators",
        default="",
        help="comma-separated: jobset, lws, ray, mpi, trainer: define the kinds of these operators and make their "
        "pods; see docs/job-kinds.md",
    )
    return made


def main() -> int:
    """Run the controllers until SIGTERM. Return the exit code."""
    parser = options()
    args = parser.parse_args()
    try:
        select(_names(args), ())
        service.features(args)
        _seconds(args.node_monitor_grace_period)
        _terms(args)
        parse_operators(args.operators)
        service.create_tls(args)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return service.run("controller", args.log_level, lambda: _serve(args))


async def _serve(args: argparse.Namespace) -> None:
    from dra_controller.manager import ControllerConfig, ControllerManager

    config = ControllerConfig(
        controllers=_names(args),
        features=service.features(args),
        leader_elect=args.leader_elect,
        use_service_account_credentials=args.use_service_account_credentials,
        terms=_terms(args),
        node_monitor_grace_seconds=_seconds(args.node_monitor_grace_period),
        root_ca=_root_ca(args),
        operators=parse_operators(args.operators),
    )
    async with (
        service.connect(args, _USER_AGENT.format(config.features.version)) as client,
        ControllerManager(config, client) as manager,
        service.HealthServer(
            args.health_address,
            args.health_port,
            {"controllers": lambda: manager.ready},
            guard=service.guard(args),
            tls=service.create_tls(args),
        ) as health,
    ):
        _log.info("serving health and metrics", address=args.health_address, port=health.port)
        await manager.wait()


def _terms(args: argparse.Namespace) -> Terms:
    """Return the durations of a leader's terms.

    Raises:
        ValueError: the durations contradict each other.
    """
    return Terms(
        lease_duration=_seconds(args.leader_elect_lease_duration),
        renew_deadline=_seconds(args.leader_elect_renew_deadline),
        retry_period=_seconds(args.leader_elect_retry_period),
    )


def _root_ca(args: argparse.Namespace) -> str:
    """Return the certificates that verify the API server; empty if it serves plain HTTP.

    Raises:
        OSError: the file can't be read.
        KubeconfigError: the kubeconfig cannot be used.
    """
    if args.root_ca_file is not None:
        content: str = args.root_ca_file.read_text()
        return content
    if not args.kubeconfig:
        return ""
    from dra_shared.client import kubeconfig

    return kubeconfig.load(Path(args.kubeconfig)).authority


def _seconds(text: str) -> float:
    """Parse a duration in Go's notation. Return its seconds.

    Raises:
        ValueError: the text is not a duration, or not positive.
    """
    try:
        seconds = parse(text).seconds
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ValueError(f'invalid duration "{text}": give one such as 50s or 1m30s')
    return seconds


def _names(args: argparse.Namespace) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in args.controllers.split(",") if entry.strip())


if __name__ == "__main__":
    raise SystemExit(main())
