"""The references of pods and volumes to other objects (pkg/api/v1/pod, pkg/api/v1/persistentvolume)."""

from __future__ import annotations

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
# Volume sources with a reference to a secret, and the field that has it.
_SECRETS = {
    "cephfs": "secretRef",
    "cinder": "secretRef",
    "csi": "nodePublishSecretRef",
    "flexVolume": "secretRef",
    "iscsi": "secretRef",
    "rbd": "secretRef",
    "scaleIO": "secretRef",
    "storageos": "secretRef",
}
# The sources of PersistentVolumes that a kubelet uses.
_VOLUME_SECRETS = {
    **{source: ("secretRef",) for source in _SECRETS if source != "csi"},
    "csi": ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"),
}


def secrets(pod: JsonObject) -> Iterator[str]:
    """Yield the names of the secrets that a pod refers to."""
    spec = pod["spec"]
    for reference in spec.get("imagePullSecrets") or ():
        yield from _name(reference)
    for container in _containers(spec):
        for source in container.get("envFrom") or ():
            yield from _name(source.get("secretRef"))
        for variable in container.get("env") or ():
            yield from _name((variable.get("valueFrom") or {}).get("secretKeyRef"))
    for volume in spec.get("volumes") or ():
        yield from _name({"name": (volume.get("secret") or {}).get("secretName")})
        yield from _name({"name": (volume.get("azureFile") or {}).get("secretName")})
        for source, field in _SECRETS.items():
            yield from _name((volume.get(source) or {}).get(field))
        for projected in (volume.get("projected") or {}).get("sources") or ():
            yield from _name(projected.get("secret"))


def config_maps(pod: JsonObject) -> Iterator[str]:
    """Yield the names of the config maps that a pod refers to."""
    spec = pod["spec"]
    for container in _containers(spec):
        for source in container.get("envFrom") or ():
            yield from _name(source.get("configMapRef"))
        for variable in container.get("env") or ():
            yield from _name((variable.get("valueFrom") or {}).get("configMapKeyRef"))
    for volume in spec.get("volumes") or ():
        yield from _name(volume.get("configMap"))
        for projected in (volume.get("projected") or {}).get("sources") or ():
            yield from _name(projected.get("configMap"))


def volume_claims(pod: JsonObject) -> Iterator[str]:
    """Yield the names of the PersistentVolumeClaims of a pod's volumes."""
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim") is not None:
            yield volume["persistentVolumeClaim"].get("claimName") or ""
        elif volume.get("ephemeral") is not None:
            yield f"{pod['metadata']['name']}-{volume['name']}"


def resource_claims(pod: JsonObject) -> Iterator[str]:
    """Yield the names of a pod's ResourceClaims, without those that are not created yet."""
    status = pod.get("status") or {}
    made = {one["name"]: one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()}
    for entry in pod["spec"].get("resourceClaims") or ():
        name = entry.get("resourceClaimName") or made.get(entry["name"])
        if name:
            yield name
    yield from _name({"name": (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")})


def volume_secrets(volume: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of the secrets that a kubelet needs for a PersistentVolume."""
    spec = volume["spec"]
    home = (spec.get("claimRef") or {}).get("namespace") or ""
    azure = spec.get("azureFile") or {}
    if azure.get("secretName"):
        yield azure.get("secretNamespace") or home, azure["secretName"]
    for source, fields in _VOLUME_SECRETS.items():
        for field in fields:
            reference = (spec.get(source) or {}).get(field) or {}
            if reference.get("name"):
                yield reference.get("namespace") or home, reference["name"]


def _containers(spec: JsonObject) -> Iterator[JsonObject]:
    for field in _CONTAINERS:
        yield from spec.get(field) or ()


def _name(reference: JsonObject | None) -> Iterator[str]:
    if reference and reference.get("name"):
        yield reference["name"]


# Volume sources that need an API object, with the word for it in the error.
_NEEDED = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTED = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def needs(pod: JsonObject) -> str | None:
    """Return the first kind, in upstream's order, that a pod's spec refers to (HasAPIObjectReference)."""
    spec = pod.get("spec") or {}
    found = (
        (spec.get("serviceAccountName"), "serviceaccounts"),
        (any(secrets(pod)), "secrets"),
        (any(config_maps(pod)), "configmaps"),
        (spec.get("resourceClaims"), "resourceclaims"),
    )
    for there, what in found:
        if there:
            return what
    for volume in spec.get("volumes") or ():
        for source, what in _NEEDED.items():
            if volume.get(source) is not None:
                return what
        for projected in (volume.get("projected") or {}).get("sources") or ():
            for source, what in _PROJECTED.items():
                if projected.get(source) is not None:
                    return what
    return None
