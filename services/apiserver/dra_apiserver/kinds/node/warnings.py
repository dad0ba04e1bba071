"""Warnings of runtime classes (their strategy's WarningsOnCreate and WarningsOnUpdate)."""

from __future__ import annotations

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.nodelabels import DEPRECATED


def runtime_class(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    for key in (obj.get("scheduling") or {}).get("nodeSelector") or {}:
        if key in DEPRECATED:
            yield f"scheduling.nodeSelector: {DEPRECATED[key]}"
