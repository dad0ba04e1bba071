"""An import-linter contract: the rooms of kinds are the layers that `dra_apiserver.kinds.rooms` lists."""

from __future__ import annotations

from typing import Any

from dra_apiserver.kinds.rooms import FLOORS
from importlinter.contracts.layers import LayersContract


class RoomFloors(LayersContract):
    """The layers contract of import-linter, with additional layers that are read from the code."""

    def __init__(self, name: str, session_options: dict[str, Any], contract_options: dict[str, Any]) -> None:
        layers = ["bootstrap", "catalog", *(" | ".join(floor) for floor in FLOORS), "rooms"]
        own = {"containers": ["dra_apiserver.kinds"], "layers": layers, "exhaustive": "true"}
        super().__init__(name, session_options, {**contract_options, **own})
