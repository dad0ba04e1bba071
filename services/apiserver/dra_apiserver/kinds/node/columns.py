"""Columns of runtime classes (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.objectcells import age, name


def runtime_class(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), obj.get("handler", ""), age(obj, now)]
