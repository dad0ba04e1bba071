"""Structs that embed another struct in Go."""

from collections.abc import Mapping

_REFERENCE = ("LocalObjectReference",)
_CONFIGURATION = ("DeviceConfiguration",)
# For each struct with an embedded struct: the embedded struct, and the struct's other members.
EMBEDDED: Mapping[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "ConfigMapEnvSource": (_REFERENCE, frozenset({"optional"})),
    "ConfigMapKeySelector": (_REFERENCE, frozenset({"key", "optional"})),
    "ConfigMapProjection": (_REFERENCE, frozenset({"items", "optional"})),
    "ConfigMapVolumeSource": (_REFERENCE, frozenset({"items", "defaultMode", "optional"})),
    "DeviceAllocationConfiguration": (_CONFIGURATION, frozenset({"source", "requests"})),
    "DeviceClaimConfiguration": (_CONFIGURATION, frozenset({"requests"})),
    "DeviceClassConfiguration": (_CONFIGURATION, frozenset()),
    "EphemeralContainer": (("EphemeralContainerCommon",), frozenset({"targetContainerName"})),
    "IngressRule": (("IngressRuleValue",), frozenset({"host"})),
    "PersistentVolumeSpec": (
        ("PersistentVolumeSource",),
        frozenset({"capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName",
                   "mountOptions", "volumeMode", "nodeAffinity", "volumeAttributesClassName"}),
    ),
    "Probe": (
        ("ProbeHandler",),
        frozenset({"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
                   "terminationGracePeriodSeconds"}),
    ),
    "RuleWithOperations": (("Rule",), frozenset({"operations"})),
    "SecretEnvSource": (_REFERENCE, frozenset({"optional"})),
    "SecretKeySelector": (_REFERENCE, frozenset({"key", "optional"})),
    "SecretProjection": (_REFERENCE, frozenset({"items", "optional"})),
    "Volume": (("VolumeSource",), frozenset({"name"})),
}  # fmt: skip
