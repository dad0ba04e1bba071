"""Differences in messages: a unified diff of upstream's internal types as encoded by Go.

Mirrors apimachinery's `util/diff`. Internal types have no JSON tags, so every field is present under its Go
name. Absent pointers, lists and maps are null. Fields have the order of the Go source, which is that of their
protobuf numbers except for the types listed here.
"""

from __future__ import annotations

import difflib
import functools
import json
from typing import Any, NamedTuple

import orjson
from dra_shared.api.schema import protobuf_document, schema_document
from dra_shared.jsontypes import JsonObject

CORE = "io.k8s.api.core.v1"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_ZERO: dict[str, Any] = {"string": "", "int": 0, "bool": False, "quantity": "0", "either": 0, "bytes": None}
# Fields of the pod that upstream's internal type has in the security context.
_OF_SECURITY = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_ORDER = {
    "PodSpec": "volumes initContainers containers ephemeralContainers restartPolicy "
    "terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector "
    "serviceAccountName automountServiceAccountToken nodeName securityContext imagePullSecrets "
    "hostname subdomain setHostnameAsFQDN affinity schedulerName tolerations hostAliases "
    "priorityClassName priority preemptionPolicy dnsConfig readinessGates runtimeClassName "
    "overhead enableServiceLinks topologySpreadConstraints os schedulingGates resourceClaims "
    "resources hostnameOverride schedulingGroup",
    "PodSecurityContext": "hostNetwork hostPID hostIPC shareProcessNamespace hostUsers seLinuxOptions windowsOptions "
    "runAsUser runAsGroup runAsNonRoot supplementalGroups supplementalGroupsPolicy fsGroup "
    "fsGroupChangePolicy sysctls seccompProfile appArmorProfile seLinuxChangePolicy",
    "Container": "name image command args workingDir ports envFrom env resources resizePolicy restartPolicy "
    "restartPolicyRules volumeMounts volumeDevices livenessProbe readinessProbe startupProbe "
    "lifecycle terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext "
    "stdin stdinOnce tty",
    "SecurityContext": "capabilities privileged seLinuxOptions windowsOptions runAsUser runAsGroup runAsNonRoot "
    "readOnlyRootFilesystem allowPrivilegeEscalation procMount seccompProfile appArmorProfile",
    "VolumeMount": "name readOnly recursiveReadOnly mountPath subPath mountPropagation subPathExpr",
    "Volume": "name hostPath emptyDir gcePersistentDisk awsElasticBlockStore gitRepo secret nfs iscsi "
    "glusterfs persistentVolumeClaim rbd quobyte flexVolume cinder cephfs flocker downwardAPI "
    "fc azureFile configMap vsphereVolume azureDisk photonPersistentDisk projected "
    "portworxVolume scaleIO storageos csi ephemeral image",
    "PersistentVolumeClaimSpec": "accessModes selector resources volumeName storageClassName volumeMode dataSource "
    "dataSourceRef volumeAttributesClassName",
    "PersistentVolumeSource": "gcePersistentDisk awsElasticBlockStore hostPath glusterfs nfs rbd quobyte iscsi "
    "flexVolume cinder cephfs fc flocker azureFile vsphereVolume azureDisk photonPersistentDisk "
    "portworxVolume scaleIO local storageos csi",
}
_ORDER["EphemeralContainer"] = f"{_ORDER['Container']} targetContainerName"
_DROPPED = frozenset({("PodSpec", name) for name in (*_OF_SECURITY, "serviceAccount")})
# Go names that differ from the API's name in more than the first letter.
_SPELLED = (
    "TTY OS NFS ISCSI RBD FC CSI GRPC HTTPGet TCPSocket HTTPHeaders DNSPolicy DNSConfig FSType FSGroup "
    "FSGroupChangePolicy SELinuxOptions SELinuxChangePolicy APIVersion APIGroup UID IP PDName "
    "AWSElasticBlockStore GCEPersistentDisk ScaleIO StorageOS CephFS GMSACredentialSpec "
    "GMSACredentialSpecName ISCSIInterface IQN WWIDs TargetWWNs SSLEnabled"
)
_RENAMED = {
    "chapAuthDiscovery": "DiscoveryCHAPAuth",
    "chapAuthSession": "SessionCHAPAuth",
    "diskURI": "DataDiskURI",
}
_NAMES = {name.lower(): name for name in _SPELLED.split()}


class _Field(NamedTuple):
    name: str
    type: Any
    pointer: bool


def godiff(old: JsonObject, new: JsonObject, kind: str) -> str:
    """Return the diff between two structs of a `kind` of the core group; "" if they are equal."""
    before, after = (_lines(_internal(value, kind), kind) for value in (old, new))
    # The diff has no header, because there are no file names.
    return "".join(list(difflib.unified_diff(before, after, n=3))[2:])


def _lines(value: JsonObject, kind: str) -> list[str]:
    text = json.dumps(_struct(value, CORE, kind), indent=1, ensure_ascii=False)
    for char in "&<>":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return [f"{line}\n" for line in text.split("\n")]


def _internal(value: JsonObject, kind: str) -> JsonObject:
    if kind != "PodSpec":
        return value
    moved = {name: value[name] for name in _OF_SECURITY if name in value}
    return {**value, "securityContext": {**moved, **(value.get("securityContext") or {})}}


def _struct(value: JsonObject, package: str, kind: str) -> JsonObject:
    if package == _META:
        # These types have JSON tags: empty fields are omitted.
        present = [field for field in _fields(package, kind) if value.get(field.name)]
        return {field.name: _value(value[field.name], field) for field in present}
    return {_go_name(field.name): _value(value.get(field.name), field) for field in _fields(package, kind)}


def _value(value: Any, field: _Field) -> Any:
    if isinstance(field.type, list):
        form, inner = field.type
        if value is None:
            return None
        item = _Field("", inner, False)
        if form == "list":
            return [_value(one, item) for one in value]
        return {key: _value(one, item) for key, one in sorted(value.items())}
    if "." in field.type:
        package, _, kind = field.type.rpartition(".")
        return None if value is None and field.pointer else _struct(value or {}, package, kind)
    return value if value is not None or field.pointer else _ZERO.get(field.type)


@functools.cache
def _fields(package: str, kind: str) -> tuple[_Field, ...]:
    types = dict(_sort_by_number(package, kind))
    if kind == "PodSecurityContext":
        types |= {name: type_ for name, type_ in _sort_by_number(package, "PodSpec") if name in _OF_SECURITY}
    pointers = _pointers(package, kind)
    if kind == "PodSecurityContext":
        pointers |= {
            name: flag for name, flag in _pointers(package, "PodSpec").items() if name in _OF_SECURITY
        }
    order = _ORDER.get(kind, "").split()
    names = [*order, *(name for name in types if name not in order)]
    return tuple(
        _Field(
            name,
            types[name],
            pointers.get(name, "." in types[name] if isinstance(types[name], str) else False),
        )
        for name in names
        if name in types and (kind, name) not in _DROPPED
    )


def _sort_by_number(package: str, kind: str) -> list[tuple[str, Any]]:
    """Return names and types sorted by number, with the fields of embedded structs in their place."""
    found: list[tuple[str, Any]] = []
    for _, (name, type_) in sorted(_messages()[package].get(kind, {}).items(), key=lambda one: int(one[0])):
        if name:
            found.append((name, type_))
        else:
            inner, _, embedded = type_.rpartition(".")
            found += _sort_by_number(inner, embedded)
    return found


def _pointers(package: str, kind: str) -> dict[str, bool]:
    properties = _schemas(package).get(kind, {}).get("properties", {})
    return {name: "*" in one["x-go"][1] for name, one in properties.items() if "x-go" in one}


@functools.cache
def _messages() -> dict[str, dict[str, dict[str, list[Any]]]]:
    document: dict[str, dict[str, dict[str, list[Any]]]] = orjson.loads(protobuf_document())
    return document


@functools.cache
def _schemas(package: str) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(schema_document(package) or b"{}")
    return document


def _go_name(name: str) -> str:
    return _RENAMED.get(name) or _NAMES.get(name.lower()) or name[0].upper() + name[1:]
