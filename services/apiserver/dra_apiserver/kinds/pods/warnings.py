"""Warnings of pods and pod templates (their strategies' WarningsOnCreate and WarningsOnUpdate)."""

from __future__ import annotations

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.addresswarnings import address_warnings
from dra_apiserver.common.warnings import name_warnings, template_changed
from dra_apiserver.kinds.pods.specwarnings import pod_warnings


def pod(pod: JsonObject, old: JsonObject | None) -> Iterator[str]:
    # Updates are skipped: most are made by controllers, and there are many.
    if old is None:
        yield from name_warnings(pod, old, "in the Pod's hostname")
        yield from pod_warnings(pod)


def pod_status(pod: JsonObject, old: JsonObject | None) -> Iterator[str]:
    for field in ("podIPs", "hostIPs"):
        for index, address in enumerate((pod.get("status") or {}).get(field) or ()):
            yield from address_warnings(f"status.{field}[{index}].ip", address.get("ip", ""))


def pod_template(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if template_changed(obj, old):
        yield from pod_warnings(obj.get("template") or {}, "template.")
