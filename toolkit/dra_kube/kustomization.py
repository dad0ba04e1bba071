"""Build a kustomization, for ``-k DIR``.

kubectl or kustomize builds it if one of them is installed. Otherwise the fields that need no patching are applied
here, and any other field is an error.
"""

import copy
import shutil
import subprocess
from pathlib import Path
from typing import Any

from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from dra_kube import manifests

_FILES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_BUILDERS = (("kustomize", "build"), ("kubectl", "kustomize"))
_BUILT = frozenset(
    ("apiVersion", "kind", "metadata", "resources", "bases", "namespace", "namePrefix", "nameSuffix",
     "commonAnnotations", "labels", "images")
)  # fmt: skip
_CLUSTER_WIDE = frozenset(
    ("Namespace", "Node", "DeviceClass", "ResourceSlice", "DeviceTaintRule", "ClusterRole", "ClusterRoleBinding",
     "CustomResourceDefinition", "PriorityClass", "StorageClass", "PersistentVolume")
)  # fmt: skip


def build(folder: str) -> list[manifests.Manifest]:
    """Return the objects of the kustomization in a folder.

    Raises:
        UserError: the folder has none, or it cannot be built.
    """
    file = _file(Path(folder))
    for builder in _BUILDERS:
        if shutil.which(builder[0]):
            made = subprocess.run([*builder, folder], capture_output=True, text=True, check=False)
            if made.returncode:
                raise UserError(made.stderr.strip().removeprefix("error: "))
            return manifests.parse(str(file), made.stdout)
    return [manifests.Manifest(obj, str(file)) for obj in _build(file)]


def _file(folder: Path) -> Path:
    for name in _FILES:
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"{folder} has no {_FILES[0]}")


def _build(file: Path) -> list[JsonObject]:
    from dra_shared.boundedfiles import read_text
    from dra_shared.yamltext import YamlError, load

    try:
        wanted = load(read_text(file)).value
    except (OSError, YamlError) as error:
        raise UserError(f"{file}: {error}") from error
    if not isinstance(wanted, dict):
        raise UserError(f"{file} is not a kustomization")
    unknown = sorted(set(wanted) - _BUILT)
    if unknown:
        raise UserError(f"{file}: {', '.join(unknown)}: install kubectl or kustomize to build this")
    objects: list[JsonObject] = []
    for source in [*(wanted.get("resources") or ()), *(wanted.get("bases") or ())]:
        path = file.parent / source
        objects += _build(_file(path)) if path.is_dir() else map(dict, manifests.load([str(path)]))
    return [_transform(copy.deepcopy(obj), wanted) for obj in objects]


def _transform(obj: JsonObject, wanted: JsonObject) -> JsonObject:
    meta = obj.setdefault("metadata", {})
    if obj.get("kind") not in ("Namespace", "CustomResourceDefinition"):
        meta["name"] = (
            f"{wanted.get('namePrefix') or ''}{meta.get('name', '')}{wanted.get('nameSuffix') or ''}"
        )
    if wanted.get("namespace") and obj.get("kind") not in _CLUSTER_WIDE:
        meta["namespace"] = wanted["namespace"]
    if wanted.get("commonAnnotations"):
        meta["annotations"] = {**(meta.get("annotations") or {}), **wanted["commonAnnotations"]}
    for entry in wanted.get("labels") or ():
        meta["labels"] = {**(meta.get("labels") or {}), **(entry.get("pairs") or {})}
    for image in wanted.get("images") or ():
        _retag(obj, image)
    return obj


def _retag(value: Any, image: JsonObject) -> None:
    """Set the new name, tag or digest of an image in all containers that use it."""
    if isinstance(value, list):
        for entry in value:
            _retag(entry, image)
    elif isinstance(value, dict):
        given = value.get("image")
        if isinstance(given, str) and given.partition("@")[0].partition(":")[0] == image["name"]:
            tag = (
                f"@{image['digest']}"
                if image.get("digest")
                else f":{image['newTag']}"
                if image.get("newTag")
                else ""
            )
            value["image"] = (image.get("newName") or image["name"]) + (tag or given[len(image["name"]) :])
        for entry in value.values():
            _retag(entry, image)
