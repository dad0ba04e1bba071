"""The planner's question about a taint, from the words in which people name a device and a taint."""

import re

from dra_scheduler.plan.moves import Moves
from dra_scheduler.plan.planner import Planner
from dra_shared.api.node import Taint
from dra_shared.api.resource import DeviceTaint
from dra_shared.errors import UserError

_TAINT = re.compile(
    r"(?P<key>[^=:]+)(?:=(?P<value>[^:]*))?:(?P<effect>NoSchedule|NoExecute|PreferNoSchedule)"
)


def taint(asked: Planner, target: str, text: str) -> Moves:
    """Answer ``plan taint`` for ``node/NAME`` or ``device/DRIVER/POOL/DEVICE`` and ``KEY[=VALUE]:EFFECT``.

    Raises:
        UserError: the target or the taint is malformed.
    """
    parts = _TAINT.fullmatch(text)
    if parts is None:
        raise UserError(f"taint {text!r} is not of the form KEY[=VALUE]:NoSchedule or :NoExecute", 2)
    kind, _, name = target.partition("/")
    key, value, effect = parts["key"], parts["value"] or "", parts["effect"]
    if kind == "node":
        return asked.taint_node(name, Taint(key=key, value=value, effect=effect))
    driver, _, rest = name.partition("/")
    pool, _, device = rest.rpartition("/")
    if kind != "device" or not pool:
        raise UserError(f"cannot taint {target!r}: choose node/NAME or device/DRIVER/POOL/DEVICE", 2)
    return asked.taint_device(driver, pool, device, DeviceTaint(key=key, value=value, effect=effect))
