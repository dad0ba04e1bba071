"""Columns of runtime classes (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dra_apiserver.common.objectcells import age, name

Object = Mapping[str, Any]


def runtime_class(obj: Object, now: datetime) -> list[Any]:
    return [name(obj), obj.get("handler", ""), age(obj, now)]
