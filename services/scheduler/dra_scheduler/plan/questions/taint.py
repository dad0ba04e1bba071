"""``plan taint``: the pods that leave a tainted node or device."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from dra_shared.api.meta import Struct
from dra_shared.errors import UserError

from dra_scheduler.plan.questions.moves import draw_moves, list_move_tables, show_moves, state_moves
from dra_scheduler.plan.questions.question import Door, Question

if TYPE_CHECKING:
    from dra_scheduler.plan.moves import Moves
    from dra_scheduler.plan.objects import Objects

_TAINT = re.compile(
    r"(?P<key>[^=:]+)(?:=(?P<value>[^:]*))?:(?P<effect>NoSchedule|NoExecute|PreferNoSchedule)"
)


class TaintRequest(Struct):
    """A taint on ``node``, or on ``device`` of the ``driver`` in ``pool``."""

    key: str
    effect: str
    value: str = ""
    node: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""


def parse_taint(target: str, text: str) -> TaintRequest:
    """Return the request for ``node/NAME`` or ``device/DRIVER/POOL/DEVICE`` and ``KEY[=VALUE]:EFFECT``.

    Raises:
        UserError: the target or the taint is malformed.
    """
    parts = _TAINT.fullmatch(text)
    if parts is None:
        raise UserError(f"taint {text!r} is not of the form KEY[=VALUE]:NoSchedule or :NoExecute", 2)
    kind, _, name = target.partition("/")
    key, value, effect = parts["key"], parts["value"] or "", parts["effect"]
    if kind == "node":
        return TaintRequest(key=key, effect=effect, value=value, node=name)
    driver, _, rest = name.partition("/")
    pool, _, device = rest.rpartition("/")
    if kind != "device" or not pool:
        raise UserError(f"cannot taint {target!r}: choose node/NAME or device/DRIVER/POOL/DEVICE", 2)
    return TaintRequest(key=key, effect=effect, value=value, driver=driver, pool=pool, device=device)


def _ask(door: Door, asked: TaintRequest) -> Moves:
    from dra_shared.api.node import Taint
    from dra_shared.api.resource import DeviceTaint

    if asked.node:
        taint = Taint(key=asked.key, value=asked.value, effect=asked.effect)
        return door.planner.taint_node(asked.node, taint)
    device_taint = DeviceTaint(key=asked.key, value=asked.value, effect=asked.effect)
    return door.planner.taint_device(asked.driver, asked.pool, asked.device, device_taint)


def _add_words(words: argparse.ArgumentParser) -> None:
    words.add_argument("target", help="node/NAME or device/DRIVER/POOL/DEVICE")
    words.add_argument("taint", help="KEY[=VALUE]:EFFECT")


def _read_words(chosen: argparse.Namespace, objects: Objects) -> TaintRequest:
    return parse_taint(chosen.target, chosen.taint)


def _phrase(asked: TaintRequest) -> str:
    target = f"node {asked.node}" if asked.node else f"device {asked.driver}/{asked.pool}/{asked.device}"
    value = f"={asked.value}" if asked.value else ""
    return f"Which pods leave {target} with the taint {asked.key}{value}:{asked.effect}?"


QUESTION = Question(
    "taint",
    "which pods leave a tainted node or device",
    TaintRequest,
    _ask,
    show_moves,
    _add_words,
    _read_words,
    draw_moves,
    phrase=_phrase,
    headline=state_moves,
    tables=list_move_tables,
)
