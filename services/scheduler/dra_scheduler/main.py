"""The scheduler's process: options, logging, signals."""

import argparse
import gc
import os
import socket
import sys

from dra_shared.features import FeatureGates
from dra_shared.service import Options, connect, guard, run

from dra_scheduler.config import DEFAULT_SCHEDULER_NAME, SchedulerConfig

# The name before the slash owns what is written (managedFields): the same as if kube-scheduler wrote it.
_USER_AGENT = "kube-scheduler/v1.36 dralab-scheduler"


def main(arguments: list[str] | None = None) -> int:
    """Run until stopped; returns the exit code."""
    options = Options("scheduler", "Gives pods their nodes and devices.")
    options.client_options()
    options.option(
        "--scheduler-name", default=DEFAULT_SCHEDULER_NAME, help="the pods' spec.schedulerName to serve"
    )
    options.option("--leader-elect", action="store_true", default=False, help="compete with other replicas")
    chosen = options.parse_args(arguments)
    try:
        gates = FeatureGates.parse(chosen.feature_gates)
        guarded = guard(chosen)
    except (OSError, ValueError) as problem:
        options.error(str(problem))
    config = SchedulerConfig(
        scheduler_name=chosen.scheduler_name,
        gates=gates,
        health_address=chosen.health_address,
        health_port=chosen.health_port,
        guard=guarded,
        leader_elect=chosen.leader_elect,
        identity=f"{socket.gethostname()}_{os.getpid()}",
    )
    return run("scheduler", chosen.log_level, lambda: serve(config, chosen))


async def serve(config: SchedulerConfig, options: argparse.Namespace) -> None:
    """Schedule for the API server that the options name until cancelled."""
    from dra_scheduler.wiring import new_scheduler

    async with (
        connect(options, _USER_AGENT) as client,
        new_scheduler(config, client=client, on_synced=_freeze) as scheduler,
    ):
        await scheduler.wait()


def _freeze() -> None:
    """Most of what the cluster has at the start stays for long: nothing to look through for garbage."""
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
