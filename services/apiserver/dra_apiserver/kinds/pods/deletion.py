"""Compute a pod's grace period (upstream's `podStrategy.CheckGracefulDelete`)."""

from __future__ import annotations

from typing import Any

_DEFAULT_GRACE = 30


def grace_period(pod: dict[str, Any], wanted: int | None) -> int:
    """Return the seconds that a pod has to stop.

    ``wanted`` is the requested value. The result is 0 if no kubelet runs the pod.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    period = wanted if wanted is not None else spec.get("terminationGracePeriodSeconds")
    if period is None:
        period = _DEFAULT_GRACE
    if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    return max(int(period), 1) if period < 0 else int(period)
