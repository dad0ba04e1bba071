"""Warnings of workloads (their strategies' WarningsOnCreate and WarningsOnUpdate)."""

from __future__ import annotations

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.warnings import name_warnings, spec_of, template_changed
from dra_apiserver.kinds.pods.specwarnings import pod_warnings
from dra_apiserver.kinds.pods.volumewarnings import claim_warnings


def template(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if template_changed(obj, old):
        yield from pod_warnings(spec_of(obj).get("template") or {}, "spec.template.")


def named_template(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from name_warnings(obj, old)
    yield from template(obj, old)


def replication_controller(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from name_warnings(obj, old)
    if template_changed(obj, old):
        # Upstream uses the old template.
        yield from pod_warnings(spec_of(old or obj).get("template") or {}, "spec.template.")


def stateful_set(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from template(obj, old)
    spec = spec_of(obj)
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        below = "" if old is None else ".Spec"
        yield from claim_warnings(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}]{below}")
    if (spec.get("revisionHistoryLimit") or 0) < 0:
        yield (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
            "a value >= 0 is recommended"
        )
