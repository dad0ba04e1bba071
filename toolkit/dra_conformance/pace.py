"""How long the suite waits, and how often it repeats."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """All in seconds, but for ``devices`` and ``cycles``.

    Args:
        start: until the driver is registered and has published.
        call: how long a call may take; the kubelet waits 45 seconds (pkg/kubelet/cm/dra/plugin/dra_plugin.go).
        call_again: how long one may take, at least, once a call had no answer.
        call_silent: the same where the last call had none.
        unanswered: for how long calls in all may have no answer before the driver is called no more.
        quiet: how long the slices are watched for needless writes.
        restored: until deleted slices are back; drivers of kubeletplugin wait half a minute before they look.
        stop: until the driver has ended by itself (a pod's default grace period).
        health: until a second health report (DefaultHealthTimeout in pkg/kubelet/cm/dra/healthinfo.go).
        outage: how long the API server fails.
        devices: how many devices a large node has.
        cycles: how many times a claim is prepared and unprepared to see what is left open.
        cycling: how long that may take; a driver whose requests are limited makes fewer cycles.
    """

    start: float = 30.0
    call: float = 45.0
    call_again: float = 3.0
    call_silent: float = 1.0
    unanswered: float = 110.0
    quiet: float = 5.0
    restored: float = 70.0
    stop: float = 30.0
    health: float = 31.0
    outage: float = 2.0
    poll: float = 0.02
    devices: int = 3000
    cycles: int = 1000
    cycling: float = 20.0
