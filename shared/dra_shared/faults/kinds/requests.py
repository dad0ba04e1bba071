"""Requests to the API server that wait, fail, conflict or are lost."""

import random
from typing import Any, Literal

from dra_shared.faults.kind import DELAY, Flag
from dra_shared.faults.parts import OF_REQUESTS
from dra_shared.faults.requests import (
    SELECTION,
    Fate,
    Meeting,
    Refusal,
    RequestFault,
    RequestKind,
    check_delay,
)

_CODES = (429, 500, 503, 504)


class _LatencyFault(RequestFault, kw_only=True, frozen=True):
    delay: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_delay(self.delay, self.seconds)


async def _wait(meeting: Meeting, fault: RequestFault) -> Fate:
    assert isinstance(fault, _LatencyFault)
    await meeting.clock.sleep(min(fault.delay, meeting.left))
    return "handled"


def _draw_latency(rng: random.Random) -> dict[str, Any]:
    return {"delay": round(rng.uniform(0.05, 1.0), 2), "share": 0.5}


LATENCY = RequestKind(
    name="latency",
    what="requests to the API server wait --delay seconds",
    promise="clients wait; nothing is lost, and nothing is done twice",
    parts=OF_REQUESTS,
    spec=_LatencyFault,
    flags=(DELAY, *SELECTION),
    meet=_wait,
    draw=_draw_latency,
)


class _ErrorFault(RequestFault, kw_only=True, frozen=True):
    code: Literal[429, 500, 503, 504] = 500


async def _answer_error(meeting: Meeting, fault: RequestFault) -> Fate:
    assert isinstance(fault, _ErrorFault)
    return Refusal(fault.code)


def _draw_error(rng: random.Random) -> dict[str, Any]:
    return {"code": rng.choice(_CODES), "share": round(rng.uniform(0.1, 0.9), 2)}


ERROR = RequestKind(
    name="error",
    what="the API server answers --code (429, 500, 503, 504)",
    promise="clients retry with growing delays; every request succeeds in the end",
    parts=OF_REQUESTS,
    spec=_ErrorFault,
    flags=(
        Flag("code", "--code", "error: the answer (500)", {"type": int, "choices": _CODES}),
        *SELECTION,
    ),
    meet=_answer_error,
    draw=_draw_error,
)


def _draw_share(rng: random.Random) -> dict[str, Any]:
    return {"share": round(rng.uniform(0.1, 0.6), 2)}


async def _answer_conflict(meeting: Meeting, fault: RequestFault) -> Fate:
    return Refusal(409)


CONFLICT = RequestKind(
    name="conflict",
    what="updates and patches are answered with 409",
    promise="clients read again and decide again; no change of another client is overwritten",
    parts=OF_REQUESTS,
    spec=RequestFault,
    flags=SELECTION,
    meet=_answer_conflict,
    affected=frozenset({"update", "patch"}),
    draw=_draw_share,
)


async def _cut(meeting: Meeting, fault: RequestFault) -> Fate:
    # A watch has no effect besides its response.
    return "lost" if meeting.verb == "watch" or meeting.rng.random() < 0.5 else "unanswered"


RESET = RequestKind(
    name="reset",
    what="the network cuts connections to the API server: a request is lost, or its answer",
    promise="clients retry; they notice requests that were executed, and do nothing twice",
    parts=OF_REQUESTS,
    spec=RequestFault,
    flags=SELECTION,
    meet=_cut,
    draw=_draw_share,
)


async def _lose(meeting: Meeting, fault: RequestFault) -> Fate:
    await meeting.clock.sleep(meeting.left)
    return "lost"


LOSS = RequestKind(
    name="loss",
    what="the network loses requests to the API server: there is no response until the fault ends",
    promise="clients wait or time out and retry; nothing is done twice",
    parts=OF_REQUESTS,
    spec=RequestFault,
    flags=SELECTION,
    meet=_lose,
    draw=_draw_share,
)
