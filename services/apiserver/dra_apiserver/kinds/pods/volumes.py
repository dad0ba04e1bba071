"""Validate the volumes of a pod, and their mounts in its containers."""

from __future__ import annotations

from collections.abc import Sequence

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common import names
from dra_apiserver.errors import (
    FieldError,
    duplicate,
    field_not_found,
    forbidden_field,
    invalid,
    missing_field,
    not_supported,
)
from dra_apiserver.kinds.pods.volumesources import check_source

_MOUNT_OPTIONS = ("nodev", "noexec", "nosuid")
# The types of volumes in the order in which upstream checks them, and the member that each requires.
_TYPES: dict[str, str] = {
    "emptyDir": "", "hostPath": "path", "gitRepo": "repository", "gcePersistentDisk": "pdName",
    "awsElasticBlockStore": "volumeID", "secret": "secretName", "nfs": "server", "iscsi": "targetPortal",
    "glusterfs": "endpoints", "flocker": "", "persistentVolumeClaim": "claimName", "rbd": "image",
    "cinder": "volumeID", "cephfs": "monitors", "quobyte": "registry", "downwardAPI": "", "fc": "",
    "flexVolume": "driver", "configMap": "name", "azureFile": "secretName", "vsphereVolume": "volumePath",
    "photonPersistentDisk": "pdID", "portworxVolume": "volumeID", "azureDisk": "diskName", "storageos": "",
    "projected": "", "scaleIO": "gateway", "csi": "driver", "ephemeral": "volumeClaimTemplate", "image": "",
}  # fmt: skip


def check_volumes(volumes: Sequence[JsonObject], path: str) -> tuple[list[FieldError], dict[str, JsonObject]]:
    """Return the errors, and the valid volumes by name."""
    errors: list[FieldError] = []
    good: dict[str, JsonObject] = {}
    for index, volume in enumerate(volumes):
        at = f"{path}[{index}]"
        found = _check_source(volume, at)
        name = volume.get("name", "")
        found += names.label(name, f"{at}.name") if name else [missing_field(f"{at}.name")]
        if name in good:
            found.append(duplicate(f"{at}.name", name))
        if not found:
            good[name] = volume
        errors += found
    return errors, good


def _check_source(volume: JsonObject, path: str) -> list[FieldError]:
    given = [kind for kind in _TYPES if volume.get(kind) is not None]
    if not given:
        return [missing_field(path, "must specify a volume type")]
    first, *others = given
    errors: list[FieldError] = []
    member = _TYPES[first]
    if member and not volume[first].get(member):
        errors.append(missing_field(f"{path}.{first}.{member}"))
    errors += check_source(first, volume[first], f"{path}.{first}")
    text = "may not specify more than 1 volume type"
    return errors + [forbidden_field(f"{path}.{kind}", text) for kind in others]


def check_mounts(container: JsonObject, volumes: dict[str, JsonObject], path: str) -> list[FieldError]:
    """Validate mounts: each refers to one of the pod's volumes, and has a unique path."""
    errors: list[FieldError] = []
    devices = container.get("volumeDevices") or ()
    device_names = {device.get("name", "") for device in devices}
    device_paths = {device.get("devicePath", "") for device in devices}
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at = f"{path}.volumeMounts[{index}]"
        name, where = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(missing_field(f"{at}.name"))
        if name not in volumes:
            errors.append(field_not_found(f"{at}.name", name))
        if not where:
            errors.append(missing_field(f"{at}.mountPath"))
        if where in seen:
            errors.append(invalid(f"{at}.mountPath", where, "must be unique"))
        seen.add(where)
        if name in device_names:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeDevices"))
        if where in device_paths:
            text = "must not already exist as a path in volumeDevices"
            errors.append(invalid(f"{at}.mountPath", where, text))
        errors += _check_sub_paths(mount, f"{path}.volumeMounts", at)
        errors += _check_options(mount, volumes, f"{at}.bindMountOptions")
    return errors + _check_devices(container, volumes, f"{path}.volumeDevices")


def _check_options(mount: JsonObject, volumes: dict[str, JsonObject], path: str) -> list[FieldError]:
    """Validate the options of a bind mount (`validateBindMountOptions`)."""
    errors: list[FieldError] = []
    options = mount.get("bindMountOptions") or []
    for index, option in enumerate(options):
        if option not in _MOUNT_OPTIONS:
            errors.append(not_supported(f"{path}[{index}]", option, _MOUNT_OPTIONS))
        if option in options[:index]:
            errors.append(duplicate(f"{path}[{index}]", option))
    if options and volumes.get(mount.get("name", ""), {}).get("image") is not None:
        text = "bindMountOptions may not be used with image volumes"
        errors.append(invalid(path, options, text))
    return errors


def _check_devices(container: JsonObject, volumes: dict[str, JsonObject], path: str) -> list[FieldError]:
    """Validate block devices: each is one of the pod's block volumes, once and at a unique path."""
    errors: list[FieldError] = []
    mounts = container.get("volumeMounts") or ()
    mounted = {mount.get("name", "") for mount in mounts}
    mount_paths = {mount.get("mountPath", "") for mount in mounts}
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        at = f"{path}[{index}]"
        name, where = device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.append(missing_field(f"{at}.name"))
        if name in names:
            errors.append(invalid(f"{at}.name", name, "must be unique"))
        if name not in volumes:
            errors.append(field_not_found(f"{at}.name", name))
        elif not {"persistentVolumeClaim", "ephemeral"} & volumes[name].keys():
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{at}.name", name, text))
        if not where:
            errors.append(missing_field(f"{at}.devicePath"))
        if where in paths:
            errors.append(invalid(f"{at}.devicePath", where, "must be unique"))
        if ".." in where.split("/"):
            errors.append(invalid(f"{at}.devicePath", where, "can not contain backsteps ('..')"))
        else:
            paths.add(where)
        if name in mounted:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeMounts"))
        if where in mount_paths:
            text = "must not already exist as a path in volumeMounts"
            errors.append(invalid(f"{at}.devicePath", where, text))
        if name:
            names.add(name)
    return errors


def _check_sub_paths(mount: JsonObject, list_path: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    plain, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if plain:
        errors += _check_descending(plain, f"{list_path}.subPath")
    if expression:
        if plain:
            text = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{path}.subPathExpr", expression, text))
        errors += _check_descending(expression, f"{list_path}.subPathExpr")
    return errors


def _check_descending(value: str, path: str) -> list[FieldError]:
    errors = []
    if value.startswith("/"):
        errors.append(invalid(path, value, "must be a relative path"))
    if ".." in value.split("/"):
        errors.append(invalid(path, value, "must not contain '..'"))
    return errors
