"""Time limits of the suite, and how often it repeats a step."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """Limits of a run, in seconds except for ``devices`` and ``cycles``.

    Args:
        start: until the driver has registered and published its slices.
        call: the limit of a call; the kubelet waits 45 seconds (pkg/kubelet/cm/dra/plugin/dra_plugin.go).
        call_again: the least limit of a call after an earlier call had no answer.
        call_silent: the least limit of a call if the last call had no answer.
        unanswered: the total time that calls may stay unanswered before the suite stops calling the driver.
        quiet: how long the suite watches the slices for needless writes.
        restored: until deleted slices are published again; drivers that use kubeletplugin wait 30 seconds first.
        stop: until the driver has exited by itself (a pod's default grace period).
        health: until a second health report (DefaultHealthTimeout in pkg/kubelet/cm/dra/healthinfo.go).
        outage: how long the API server fails.
        poll: between two reads of a state that the suite waits for.
        devices: the number of devices of a large node.
        cycles: how often a claim is prepared and unprepared in the search for leaks.
        cycling: the limit of all these cycles; a driver with rate-limited requests gets through fewer.
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
