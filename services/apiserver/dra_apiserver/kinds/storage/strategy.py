"""The strategies of volumes and of claims to them."""

from __future__ import annotations

from typing import Any

from dra_apiserver.common.checked import CheckedStrategy
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.storage.volumes import check_claim, check_csi_driver, check_volume
from dra_apiserver.schema import same

JsonObject = dict[str, Any]


class VolumeStrategy(CheckedStrategy):
    """A volume's phase says when it came to it."""

    def __init__(self) -> None:
        super().__init__(check_volume)

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Pending since now."""
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": ctx.now}

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Note when the phase changed, where the controller did not."""
        super().prepare_for_update(obj, old, ctx)
        if ctx.subresource != "status":
            return
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        changed = status.get("phase") != before.get("phase")
        if changed and status.get("lastPhaseTransitionTime") == before.get("lastPhaseTransitionTime"):
            status["lastPhaseTransitionTime"] = ctx.now


class DriverStrategy(CheckedStrategy):
    """A CSI driver, whose generation is not set before its first change."""

    def __init__(self) -> None:
        super().__init__(check_csi_driver)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Count the changes of the spec."""
        super().prepare_for_update(obj, old, ctx)
        if not same("io.k8s.api.storage.v1.CSIDriverSpec", obj.get("spec"), old.get("spec")):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


_KNOWN_SOURCES = {("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io")}


class ClaimStrategy(CheckedStrategy):
    """A claim's two ways to name what it is filled from say the same."""

    def __init__(self) -> None:
        super().__init__(check_claim)

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Pending."""
        obj["status"] = {"phase": "Pending"}
        spec = obj.setdefault("spec", {})
        source = spec.get("dataSource")
        if source is not None and (source.get("kind"), source.get("apiGroup") or "") not in _KNOWN_SOURCES:
            # The older field never took others, and drops them without a word.
            del spec["dataSource"]
        _match_sources(spec)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """As any kind."""
        super().prepare_for_update(obj, old, ctx)
        if ctx.subresource != "status":
            _match_sources(obj.setdefault("spec", {}))


def _match_sources(spec: JsonObject) -> None:
    """Fill each of the two fields in from the other, where it can say it (NormalizeDataSources)."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        # A reference always has its group, be it none.
        spec["dataSourceRef"] = {"apiGroup": None, **source}
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {
            "apiGroup": None,
            **{key: reference[key] for key in reference if key != "namespace"},
        }
