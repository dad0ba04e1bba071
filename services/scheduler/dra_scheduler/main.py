"""The scheduler's process: options, logging, signals."""

import argparse
import gc
import sys
from pathlib import Path

from dra_shared.boundedfiles import read_text
from dra_shared.client.identity import unique_identity
from dra_shared.features import FeatureGates
from dra_shared.service import Options, boolean, connect, create_tls, features, guard, run

from dra_scheduler.componentconfig.load import Loaded
from dra_scheduler.config import DEFAULT_SCHEDULER_NAME, Lease, SchedulerConfig, lease

# The User-Agent. The part before the slash becomes the manager in managedFields: that of kube-scheduler.
_USER_AGENT = "kube-scheduler/v{} dralab-scheduler"


def options() -> Options:
    """Return the command's options."""
    made = Options("scheduler", "Gives pods their nodes and devices.")
    made.client_options()
    made.option(
        "--config",
        default=None,
        type=Path,
        help="file with a KubeSchedulerConfiguration; see docs/scheduler.md",
    )
    made.option(
        "--scheduler-name",
        default=DEFAULT_SCHEDULER_NAME,
        help="the pods' spec.schedulerName to serve, unless --config has profiles",
    )
    made.option(
        "--leader-elect",
        nargs="?",
        const=True,
        default=None,
        type=boolean,
        help="schedule only while holding the Lease kube-system/kube-scheduler, or the one that --config names; "
        "false: schedule without a Lease, even if --config requires one",
    )
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run until stopped. Return the exit code."""
    parser = options()
    chosen = parser.parse_args(arguments)
    try:
        gates = features(chosen)
        loaded = _load(chosen.config, gates) if chosen.config is not None else None
        config = _config(chosen, gates, loaded)
    except (OSError, ValueError) as problem:
        parser.error(str(problem))
    return run("scheduler", chosen.log_level, lambda: serve(config, chosen))


def _load(file: Path, gates: FeatureGates) -> Loaded:
    try:
        text = read_text(file)
    except OSError as problem:
        raise ValueError(f"open {file}: {(problem.strerror or str(problem)).lower()}") from problem
    from dra_scheduler.plugins.profiles import load

    return load(text, gates)


def _config(chosen: argparse.Namespace, gates: FeatureGates, loaded: Loaded | None) -> SchedulerConfig:
    # As in upstream's ApplyLeaderElectionTo (cmd/kube-scheduler/app/options), a flag that is set overrides
    # the file.
    elects: bool | None = chosen.leader_elect
    if elects is None:
        elects = loaded is not None and bool(loaded.config.leader_election.leader_elect)
    if loaded is not None and loaded.config.client_connection.kubeconfig:
        chosen.kubeconfig = chosen.kubeconfig or loaded.config.client_connection.kubeconfig
    return SchedulerConfig(
        scheduler_name=chosen.scheduler_name,
        loaded=loaded,
        gates=gates,
        health_address=chosen.health_address,
        health_port=chosen.health_port,
        guard=guard(chosen),
        tls=create_tls(chosen),
        leader_elect=elects,
        lease=lease(loaded.config.leader_election) if loaded is not None else Lease(),
        identity=unique_identity(),
    )


async def serve(config: SchedulerConfig, options: argparse.Namespace) -> None:
    """Schedule pods of the API server that the options name, until cancelled."""
    from dra_scheduler.plan.routes import plan_routes
    from dra_scheduler.wiring import new_scheduler

    async with connect(options, _USER_AGENT.format(config.gates.version)) as client:
        scheduler = new_scheduler(config, client=client, on_synced=_freeze)
        scheduler.add_routes(plan_routes(scheduler.informers, config, client))
        async with scheduler:
            await scheduler.wait()


def _freeze() -> None:
    """Exclude the initial objects from garbage collection, because most of them live long."""
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
