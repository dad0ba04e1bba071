"""A container in the terms of an engine: the options that create it, and its state (Docker's API)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dra_shared.quantity import Quantity

from dra_node_agent.runtime.base import Consumption, ContainerRecord, ContainerSpec, State

_LABEL = "dralab.dev/"
NODE_LABEL = f"{_LABEL}node"


def options(spec: ContainerSpec, node: str) -> dict[str, Any]:
    """Return the options that create the container on this node, without those for network and devices."""
    uid = spec.pod_uid[:8]
    return {
        "name": f"dralab_{spec.name}_{spec.pod}_{spec.namespace}_{uid}_{spec.attempt}"[:250],
        "entrypoint": list(spec.command) or None,
        "command": list(spec.args) or None,
        "environment": dict(spec.env),
        "working_dir": spec.working_dir or None,
        "volumes": [
            f"{mount.source}:{mount.target}:{'ro' if mount.read_only else 'rw'}"
            for mount in spec.mounts
            if mount.source
        ],
        "devices": [],
        "privileged": spec.privileged,
        "user": spec.user or None,
        "tty": spec.tty,
        "stop_signal": spec.stop_signal or None,
        **_limits(spec),
        "labels": {
            NODE_LABEL: node,
            f"{_LABEL}namespace": spec.namespace,
            f"{_LABEL}pod": spec.pod,
            f"{_LABEL}pod-uid": spec.pod_uid,
            f"{_LABEL}container": spec.name,
            f"{_LABEL}attempt": str(spec.attempt),
            f"{_LABEL}init": str(spec.init).lower(),
            # Labels for annotations that plugins add to a container, in the form that dockershim used.
            **{f"annotation.{name}": value for name, value in spec.devices.annotations.items()},
        },
    }


def _limits(spec: ContainerSpec) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if "memory" in spec.limits:
        limits["mem_limit"] = Quantity.parse(spec.limits["memory"]).value()
    if "cpu" in spec.limits:
        limits["nano_cpus"] = Quantity.parse(spec.limits["cpu"]).milli_value() * 1_000_000
    return limits


def record(container: Any) -> ContainerRecord:
    """Return the state of a container of docker-py."""
    attributes, labels = container.attrs, container.labels
    state = attributes["State"]
    running = state.get("Status") in ("running", "created", "restarting", "paused")
    code = int(state.get("ExitCode") or 0)
    reason = "" if running else "Completed" if code == 0 else "Error"
    if state.get("OOMKilled"):
        reason = "OOMKilled"
    return ContainerRecord(
        id=container.id,
        namespace=labels.get(f"{_LABEL}namespace", ""),
        pod=labels.get(f"{_LABEL}pod", ""),
        pod_uid=labels.get(f"{_LABEL}pod-uid", ""),
        name=labels.get(f"{_LABEL}container", ""),
        attempt=int(labels.get(f"{_LABEL}attempt", "0")),
        image=attributes.get("Config", {}).get("Image", ""),
        image_id=attributes.get("Image", ""),
        init=labels.get(f"{_LABEL}init") == "true",
        state=State.RUNNING if running else State.EXITED,
        started_at=parse_time(state.get("StartedAt")),
        finished_at=None if running else parse_time(state.get("FinishedAt")),
        exit_code=code,
        reason=reason,
        message=str(state.get("Error") or ""),
    )


def address(container: Any) -> str:
    """Return the IP address of the container; empty if it has none."""
    settings = container.attrs.get("NetworkSettings", {})
    networks = (settings.get("Networks") or {}).values()
    return settings.get("IPAddress") or next((network.get("IPAddress", "") for network in networks), "")


def consumption(stats: Mapping[str, Any]) -> Consumption | None:
    """Read the statistics of an engine as cAdvisor does: the working set excludes memory that can be freed at once."""
    cpu, memory = stats.get("cpu_stats") or {}, stats.get("memory_stats") or {}
    used = (cpu.get("cpu_usage") or {}).get("total_usage")
    if not used:
        return None
    details = memory.get("stats") or {}
    inactive = details.get("inactive_file") or details.get("total_inactive_file") or 0
    return Consumption(used / 1e9, max(int(memory.get("usage") or 0) - int(inactive), 0))


def parse_time(text: str | None) -> datetime | None:
    """Parse a time as engines write it; None for the zero time of Go."""
    if not text or text.startswith("0001"):
        return None
    # Engines write nanoseconds; Python reads microseconds.
    head, _, rest = text.partition(".")
    digits = "".join(char for char in rest if char.isdigit())[:6] if rest else "0"
    if rest and ("+" in rest or "-" in rest):
        zone = rest[max(rest.rfind("+"), rest.rfind("-")) :]
        digits = "".join(char for char in rest[: -len(zone)] if char.isdigit())[:6]
        return datetime.fromisoformat(f"{head}.{digits.ljust(6, '0')}{zone}").astimezone(UTC)
    return datetime.fromisoformat(f"{head.rstrip('Z')}.{digits.ljust(6, '0')}+00:00")
