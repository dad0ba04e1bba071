"""Files with device metadata for containers: metadata.go of k8s.io/dynamic-resource-allocation/kubeletplugin.

For each request of a claim, a driver keeps one file with ``DeviceMetadata`` of metadata.resource.k8s.io in
JSON, once for each API version. A CDI device mounts it where programs look for it, see
:func:`container_path`.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from dra_shared.api.resource import ResourceClaim
from dra_shared.claims import POD_CLAIM_ANNOTATION
from dra_shared.version import V1_37, Version

from dra_driverkit.claims import ClaimRef, PreparedDevice
from dra_driverkit.directories import Directories
from dra_driverkit.errors import DriverConfigError
from dra_driverkit.files import write_atomically

GROUP = "metadata.resource.k8s.io"
V1ALPHA1, V1BETA1 = f"{GROUP}/v1alpha1", f"{GROUP}/v1beta1"

_CDI_VERSION = "0.5.0"
_LONGEST_NAME = 255
_CONTAINER_DIRECTORY = "/var/run/kubernetes.io/dra-device-attributes"
_HTML = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
_decoder = json.JSONDecoder()


class MetadataError(Exception):
    """Metadata cannot be updated."""


def known_versions(kubernetes: Version) -> tuple[str, ...]:
    """Return the API versions that a driver built with that version's helper supports, newest first.

    Drivers for older clusters are built with the helper of 1.36, the first one with metadata.
    """
    return (V1BETA1, V1ALPHA1) if kubernetes >= V1_37 else (V1ALPHA1,)


def container_path(driver: str, claim: str, pod_claim: str | None, request: str) -> str:
    """Return the path of a request's metadata in a container.

    Args:
        claim: the claim's name.
        pod_claim: the claim's name in the pod, for a claim created from a template.
    """
    kind, name = ("resourceclaimtemplates", pod_claim) if pod_claim else ("resourceclaims", claim)
    return f"{_CONTAINER_DIRECTORY}/{kind}/{name}/{request}/{driver}-metadata.json"


class MetadataWriter:
    """Writes the metadata files of one driver on a node.

    Args:
        versions: the API versions to write, in this order; unknown ones are skipped.
        kubernetes: the version whose helper the driver is built with.

    Raises:
        DriverConfigError: none of the versions is known.
    """

    def __init__(
        self, driver: str, directories: Directories, versions: Sequence[str], kubernetes: Version = V1_37
    ) -> None:
        known = known_versions(kubernetes)
        self._versions = tuple(version for version in versions if version in known)
        if not self._versions:
            raise DriverConfigError(
                "initialize device metadata: none of the requested metadata API versions"
                f" [{' '.join(versions)}] are supported"
            )
        self._driver = driver
        self._root = directories.plugin / "dra-device-metadata"
        self._cdi = directories.cdi

    def write(self, claim: ResourceClaim, devices: Sequence[PreparedDevice]) -> list[PreparedDevice]:
        """Write the files of a claim. Return its devices with the CDI ids that mount the files.

        Raises:
            OSError: a file cannot be written.
        """
        by_request: dict[str, list[PreparedDevice]] = {}
        for device in devices:
            for request in device.requests:
                by_request.setdefault(request, []).append(device)
        meta = claim.metadata
        pod_claim = meta.annotations.get(POD_CLAIM_ANNOTATION)
        ref = ClaimRef(meta.namespace, meta.name, meta.uid)
        ids: dict[str, str] = {}
        for request, its_devices in by_request.items():
            base = _base(request)
            path = self._path(ref, base)
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, self._content(ref, pod_claim, 1, request, its_devices))
            ids[base] = self._write_cdi(ref, pod_claim, base)
        return [_with_ids(device, ids) for device in devices]

    def update(self, claim: ClaimRef, request: str, devices: Sequence[PreparedDevice]) -> None:
        """Rewrite the file of one request, for data that is only known after the pod has its network.

        Args:
            devices: those that were prepared for the request, with their metadata.

        Raises:
            MetadataError: the claim is not prepared or has no such request, or its file is damaged.
            OSError: the file cannot be written.
        """
        path = self._path(claim, _base(request))
        try:
            before = _first_known(path.read_text())
        except FileNotFoundError:
            raise MetadataError(
                f'request "{request}" not found in prepared claim {claim.namespace}/{claim.name}'
            ) from None
        generation = before["metadata"].get("generation", 0) + 1
        # Write in place: a mount shows the file that existed when the container started.
        _write(path, self._content(claim, before.get("podClaimName"), generation, request, devices))

    def remove(self, claim: ClaimRef) -> None:
        """Remove the files of a claim, if there are any.

        Raises:
            OSError: a file cannot be removed.
        """
        folder = self._folder(claim)
        for path in sorted(folder.rglob("*"), reverse=True):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
        if folder.exists():
            folder.rmdir()
        for path in self._cdi.glob(f"{self._driver}_metadata_{claim.uid}_*.json"):
            path.unlink(missing_ok=True)

    def _folder(self, claim: ClaimRef) -> Path:
        """Return upstream's folder, or one named by the UID if the name would be too long for file systems."""
        name = f"{claim.namespace}_{claim.name}"
        return self._root / (name if len(name) <= _LONGEST_NAME else claim.uid)

    def _path(self, claim: ClaimRef, request: str) -> Path:
        return self._folder(claim) / request / "metadata.json"

    def _content(
        self,
        claim: ClaimRef,
        pod_claim: str | None,
        generation: int,
        request: str,
        devices: Sequence[PreparedDevice],
    ) -> str:
        meta = {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid, "generation": generation}
        body: dict[str, Any] = {"metadata": meta}
        if pod_claim is not None:
            body["podClaimName"] = pod_claim
        entry: dict[str, Any] = {"name": request}
        if devices:
            entry["devices"] = [self._device(device) for device in devices]
        body["requests"] = [entry]
        return "".join(
            _pretty({"kind": "DeviceMetadata", "apiVersion": version, **body}) + "\n"
            for version in self._versions
        )

    def _device(self, device: PreparedDevice) -> dict[str, Any]:
        plain: dict[str, Any] = {"driver": self._driver, "pool": device.pool, "name": device.device}
        metadata = device.metadata
        if metadata is None:
            return plain
        if metadata.attributes:
            plain["attributes"] = {
                name: msgspec.to_builtins(value) for name, value in sorted(metadata.attributes.items())
            }
        if metadata.network_data is not None:
            found = msgspec.to_builtins(metadata.network_data)
            plain["networkData"] = {
                name: found[name] for name in ("interfaceName", "ips", "hardwareAddress") if name in found
            }
        return plain

    def _write_cdi(self, claim: ClaimRef, pod_claim: str | None, request: str) -> str:
        name, kind = f"{claim.uid}_{request}", f"{self._driver}/metadata"
        mount = {
            "hostPath": str(self._path(claim, request)),
            "containerPath": container_path(self._driver, claim.name, pod_claim, request),
            "options": ["ro", "bind"],
        }
        devices = [{"name": name, "containerEdits": {"mounts": [mount]}}]
        spec = {"cdiVersion": _CDI_VERSION, "kind": kind, "devices": devices}
        self._cdi.mkdir(parents=True, exist_ok=True)
        path = self._cdi / f"{self._driver}_metadata_{name}.json"
        # Unlike upstream, write atomically, because engines may read the directory at any time.
        write_atomically(path, _pretty(spec).encode(), durable=False, mode=0o644)
        return f"{kind}={name}"


def _base(request: str) -> str:
    return request.partition("/")[0]


def _with_ids(device: PreparedDevice, ids: dict[str, str]) -> PreparedDevice:
    """Return the device with the CDI ids of its requests. Each id goes only to the first device of its request."""
    found = [ids.pop(base) for base in map(_base, device.requests) if base in ids]
    return replace(device, cdi_ids=(*device.cdi_ids, *found)) if found else device


def _first_known(text: str) -> dict[str, Any]:
    """Return the first document in a known version (DecodeMetadataFromStream)."""
    try:
        for document in _documents(text):
            if document["apiVersion"] in known_versions(V1_37) and document["kind"] == "DeviceMetadata":
                return document
    except (ValueError, KeyError, TypeError) as error:
        raise MetadataError(f"decode existing metadata: {error}") from error
    raise MetadataError("decode existing metadata: no compatible metadata version found in stream")


def _documents(text: str) -> Iterator[dict[str, Any]]:
    rest = text.lstrip()
    while rest:
        document, end = _decoder.raw_decode(rest)
        yield document
        rest = rest[end:].lstrip()


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).translate(_HTML)


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), "w") as file:
        file.write(text)
