"""The strategies of volumes and volume claims."""

from __future__ import annotations

from types import MappingProxyType

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.checked import CheckedStrategy
from dra_apiserver.common.gates import GatedFields
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.storage.volumes import check_claim, check_csi_driver, check_volume
from dra_apiserver.schema import same


class VolumeStrategy(CheckedStrategy):
    """The strategy of volumes. The time of the last change of the phase is recorded."""

    def __init__(self) -> None:
        super().__init__(check_volume)

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Set the phase Pending with the current time."""
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": ctx.now}

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Set the time of a changed phase, unless the controller has set it."""
        super().prepare_for_update(obj, old, ctx)
        if ctx.subresource != "status":
            return
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        changed = status.get("phase") != before.get("phase")
        if changed and status.get("lastPhaseTransitionTime") == before.get("lastPhaseTransitionTime"):
            status["lastPhaseTransitionTime"] = ctx.now


_LIMITS = GatedFields(("VolumeLimitScaling",), ("spec.preventPodSchedulingIfMissing",))


def _default_prevention(obj: JsonObject) -> None:
    obj.setdefault("spec", {}).setdefault("preventPodSchedulingIfMissing", False)


class DriverStrategy(CheckedStrategy):
    """The strategy of CSI drivers. The generation is only set at the first change."""

    gated_defaults = MappingProxyType({_LIMITS.gates[0]: _default_prevention})

    def __init__(self) -> None:
        super().__init__(check_csi_driver, (_LIMITS,))

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Increment the generation if the spec changed."""
        super().prepare_for_update(obj, old, ctx)
        if not same("io.k8s.api.storage.v1.CSIDriverSpec", obj.get("spec"), old.get("spec")):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


_KNOWN_SOURCES = {("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io")}


class ClaimStrategy(CheckedStrategy):
    """The strategy of volume claims. The two fields for the data source are kept equal."""

    def __init__(self) -> None:
        super().__init__(check_claim)

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Set the phase Pending."""
        obj["status"] = {"phase": "Pending"}
        spec = obj.setdefault("spec", {})
        source = spec.get("dataSource")
        if source is not None and (source.get("kind"), source.get("apiGroup") or "") not in _KNOWN_SOURCES:
            # `dataSource` only supports some kinds, and other kinds are dropped silently.
            del spec["dataSource"]
        _match_sources(spec)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Prepare like every kind, and complete the data source."""
        super().prepare_for_update(obj, old, ctx)
        if ctx.subresource != "status":
            _match_sources(obj.setdefault("spec", {}))


def _match_sources(spec: JsonObject) -> None:
    """Set `dataSource` and `dataSourceRef` from each other where possible (NormalizeDataSources)."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        # A reference always has a group, which may be null.
        spec["dataSourceRef"] = {"apiGroup": None, **source}
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {
            "apiGroup": None,
            **{key: reference[key] for key in reference if key != "namespace"},
        }
