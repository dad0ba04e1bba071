"""Renames everything that could say whose cluster it is, the same everywhere, so that decisions stay the same.

What decisions depend on keeps its meaning: drivers, attributes, amounts, well-known labels. What they do not depend on,
such as environments, commands, addresses and messages, is left out.
"""

import re
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from dra_shared.jsontext import dumps

Json = dict[str, Any]

_KNOWN_DOMAINS = ("kubernetes.io", "k8s.io", "nvidia.com", "openshift.io")
_DROPPED = frozenset(
    {
        "addresses", "args", "command", "containerID", "daemonEndpoints", "dnsConfig", "env", "envFrom",
        "generateName", "hostAliases", "hostIP", "hostIPs", "imageID", "imagePullSecrets", "lifecycle",
        "livenessProbe", "managedFields", "message", "networkData", "nodeInfo", "podCIDR", "podCIDRs", "podIP",
        "podIPs", "providerID", "readinessProbe", "securityContext", "selfLink", "serviceAccount",
        "serviceAccountName", "startupProbe", "subdomain", "volumeMounts", "volumesAttached", "volumesInUse",
    }
)  # fmt: skip
# Words of the API, whatever objects are called.
_WORDS = frozenset(
    {
        "allocationMode", "apiVersion", "dnsPolicy", "effect", "imagePullPolicy", "kind", "operator", "phase",
        "preemptionPolicy", "protocol", "reason", "resource", "restartPolicy", "schedulerName", "status", "type",
        "whenUnsatisfiable",
    }
)  # fmt: skip
_KEPT_VALUES = re.compile(r"true|false|\d*|linux|windows|amd64|arm64|default|kube-system")
_IDENTITIES = frozenset({"uuid", "parentUUID", "serial", "serialNumber", "pciBusID", "hostname"})
_QUOTED = re.compile(r"""(["'])(.*?)\1""")


def anonymized(objects: Iterable[Json]) -> Iterator[Json]:
    """The objects under other names, once the names of all are known; until then they are kept as texts."""
    names, kept = _Names(), []
    for obj in objects:
        names.learn(obj)
        kept.append(dumps(_shortened(obj)))
    return (names.renamed(orjson.loads(text)) for text in kept)


class _Names:
    """Old names and the new ones; the same text is the same everywhere."""

    def __init__(self) -> None:
        self._new: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def learn(self, obj: Json) -> None:
        """Note the names in the object that others may refer to."""
        meta = obj.get("metadata") or {}
        kind = str(obj.get("kind", "object")).lower()
        self._note(str(meta.get("name", "")), kind)
        self._note(str(meta.get("namespace", "")), "namespace")
        for owner in meta.get("ownerReferences") or ():
            self._note(str(owner.get("name", "")), str(owner.get("kind", "owner")).lower())
        for labels in _label_maps(obj):
            for key, value in labels.items():
                if not _well_known(key):
                    self._note(key, "label")
                    self._note(str(value), "value")
        spec = obj.get("spec") if isinstance(obj.get("spec"), dict) else {}
        self._learn_spec(spec or {})

    def _learn_spec(self, spec: Json) -> None:
        self._note(str(spec.get("nodeName") or ""), "node")
        pool = spec.get("pool")
        if isinstance(pool, dict):
            self._note(str(pool.get("name", "")), "pool")
        for device in spec.get("devices") or () if isinstance(spec.get("devices"), list) else ():
            attributes = device.get("attributes") or (device.get("basic") or {}).get("attributes") or {}
            for name, value in attributes.items():
                if name.rpartition("/")[2] in _IDENTITIES and isinstance(value, dict):
                    self._note(str(value.get("string") or ""), "id")
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            self._note(str(container.get("image") or ""), "image")

    def _note(self, old: str, kind: str) -> None:
        if old and old not in self._new and not _KEPT_VALUES.fullmatch(old):
            count = self._counts[kind] = self._counts.get(kind, 0) + 1
            self._new[old] = f"{kind}-{count}"

    def renamed(self, value: Any, key: str = "") -> Any:
        """The value with new names."""
        if isinstance(value, dict):
            return {self._new.get(k, k) if _free(key) else k: self.renamed(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [self.renamed(each, key) for each in value]
        if not isinstance(value, str) or key in _WORDS:
            return value
        if key == "uid":
            return str(uuid.uuid5(uuid.NAMESPACE_OID, value))
        if key == "expression":
            return _QUOTED.sub(lambda m: f"{m[1]}{self._new.get(m[2], m[2])}{m[1]}", value)
        return self._new.get(value, value)


def _free(key: str) -> bool:
    """Whether the keys below are users' own."""
    return key in ("labels", "matchLabels", "nodeSelector", "selector")


def _label_maps(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        for key, part in value.items():
            if _free(key) and isinstance(part, dict) and all(isinstance(v, str) for v in part.values()):
                yield part
            else:
                yield from _label_maps(part)
    elif isinstance(value, list):
        for part in value:
            yield from _label_maps(part)


def _well_known(key: str) -> bool:
    domain, slash, _ = key.rpartition("/")
    return bool(slash) and domain.endswith(_KNOWN_DOMAINS)


def _shortened(value: Any) -> Any:
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, part in value.items():
        if key in _DROPPED:
            continue
        if key == "annotations" and isinstance(part, dict):
            part = {
                k: v
                for k, v in part.items()
                if k.startswith(("resource.kubernetes.io/", "kubernetes.io/config"))
            }
        if key == "volumes" and isinstance(part, list):
            part = [each for each in part if {"persistentVolumeClaim", "ephemeral"} & each.keys()]
        if key == "opaque" and isinstance(part, dict):
            part = {"driver": part.get("driver", ""), "parameters": {}}
        kept[key] = _shortened(part)
    return kept
