"""Find clients that write API versions that the new version lacks, and kubelets outside its version skew policy."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.version import Version

from dra_worlds.check.finding import REFUSED, Finding

_OLDEST_KUBELET = 3
_MINOR = re.compile(r"v1\.(\d+)")
# The cluster's own components, which are upgraded with it. Controllers of kube-controller-manager have own names.
_OWN = frozenset(
    ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "device-taint-eviction-controller")
)


def findings(objects: Iterable[JsonObject], against: Version, served: Any) -> Iterator[Finding]:
    """Yield a finding for each client that writes API versions that are not served, and for each kubelet outside
    upstream's version skew policy.

    ``served(api_version, kind)`` returns a place with ``known``, ``served`` and ``elsewhere``.
    """
    for obj in objects:
        kind = str(obj["kind"])
        if kind == "Node":
            yield from _kubelet(obj, against)
        written = {(entry.get("manager", ""), entry.get("apiVersion", "")) for entry in _managed_fields(obj)}
        for manager, api_version in sorted(written):
            if manager in _OWN:
                continue
            place = served(api_version, kind) if api_version else None
            if place is None or place.served or not (place.known or place.elsewhere):
                continue
            driver = (obj.get("spec") or {}).get("driver") if kind == "ResourceSlice" else None
            about, subject = ("driver", driver) if driver else ("client", manager)
            text = f"{manager} writes {kind} objects as {api_version}, which is not served"
            newer = f"use a release of it that writes {place.elsewhere[0]}" if place.elsewhere else ""
            option = f"--runtime-config={api_version}=true" if place.known else ""
            yield Finding(REFUSED, about, str(subject), text, ", or ".join(filter(None, (newer, option))))


def _managed_fields(obj: JsonObject) -> list[dict[str, str]]:
    return (obj.get("metadata") or {}).get("managedFields") or []


def _kubelet(node: JsonObject, against: Version) -> Iterator[Finding]:
    version = ((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion") or ""
    found = _MINOR.match(version)
    if found is None:
        return
    minor, name = int(found[1]), str(node["metadata"]["name"])
    if minor > against.minor:
        text = f"kubelet {version} is newer than an API server of {against}"
        yield Finding(REFUSED, "node", f"Node {name}", text, "downgrade the kubelet first")
    elif minor < against.minor - _OLDEST_KUBELET:
        text = f"kubelet {version} is more than three minor versions older than an API server of {against}"
        yield Finding(REFUSED, "node", f"Node {name}", text, "upgrade the kubelet first")
