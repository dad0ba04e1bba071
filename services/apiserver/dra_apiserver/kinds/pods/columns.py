"""Columns of pods and pod templates (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import labels_text
from dra_apiserver.common.objectcells import name, part


def containers(template: JsonObject) -> list[str]:
    """Return the names and images of a pod template's containers."""
    every = part(template, "spec").get("containers") or ()
    return [",".join(one.get("name", "") for one in every), ",".join(one.get("image", "") for one in every)]


def pod_template(obj: JsonObject, now: datetime) -> list[Any]:
    template = part(obj, "template")
    return [name(obj), *containers(template), labels_text(part(template, "metadata").get("labels"))]
