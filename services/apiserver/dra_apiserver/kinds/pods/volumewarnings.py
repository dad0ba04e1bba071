"""Warnings about volumes of pods: removed types, and files of projected volumes that overwrite each other."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from typing import NamedTuple

from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity

_GONE: Mapping[str, str] = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
# Upstream's text has the spelling of the Go field here.
_SPELLING = {"storageos": "storageOS"}
_OF_PERSISTENT = ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd")


class _File(NamedTuple):
    path: str
    source: str = ""

    def __str__(self) -> str:
        return f'"{self.path}" ({self.source})' if self.source else f'"{self.path}"'


def whole_bytes(amounts: JsonObject | None, names: tuple[str, ...], path: str) -> Iterator[str]:
    """Yield a warning for each of these resources whose amount is not a whole number of bytes."""
    for name in names:
        amount = (amounts or {}).get(name)
        if amount is None:
            continue
        quantity = Quantity.parse(str(amount))
        if quantity.milli_value() % 1000:
            yield f'{path}[{name}]: fractional byte value "{quantity}" is invalid, must be an integer'


def claim_warnings(spec: JsonObject, path: str) -> Iterator[str]:
    """Yield the warnings of a PersistentVolumeClaim's spec."""
    resources = spec.get("resources") or {}
    for side in ("requests", "limits"):
        yield from whole_bytes(resources.get(side), ("storage",), f"{path}.resources.{side}")


def persistent_source_warnings(spec: JsonObject) -> Iterator[str]:
    """Yield the warnings of a PersistentVolume's source."""
    for source in _OF_PERSISTENT:
        if spec.get(source) is not None:
            yield f"spec.{_SPELLING.get(source, source)}: {_GONE[source]}"


def volume_warnings(volumes: list[JsonObject], path: str) -> Iterator[str]:
    """Yield the warnings of a pod's volumes."""
    for index, volume in enumerate(volumes):
        for source, text in _GONE.items():
            if volume.get(source) is not None:
                yield f"{path}[{index}].{_SPELLING.get(source, source)}: {text}"
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template:
            at = f"{path}[{index}].ephemeral.volumeClaimTemplate.spec"
            yield from claim_warnings(template.get("spec") or {}, at)
    for volume in volumes:
        yield from _overlaps(volume)


def _overlaps(volume: JsonObject) -> Iterator[str]:
    name = volume.get("name", "")
    for key, kind, named in (
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ):
        source = volume.get(key)
        if source and source.get("items"):
            text = f'{kind} "{source.get(named, "")}"' if named else kind
            yield from _collisions(name, text, _files(source["items"], ""))
    projected = volume.get("projected")
    if projected is None:
        return
    files: list[_File] = []
    for source in projected.get("sources") or ():
        if any(source.values()):
            files += _projected_files(source)
        else:
            yield f'volume "{name}" (Projected) has no sources provided'
    yield from _collisions(name, "Projected", files)


def _files(items: list[JsonObject], source: str) -> list[_File]:
    return [_File(item.get("path", ""), source) for item in items]


def _projected_files(source: JsonObject) -> list[_File]:
    for key, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if (found := source.get(key)) and found.get("items"):
            return _files(found["items"], f'{kind} "{found.get("name", "")}"')
    if (downward := source.get("downwardAPI")) and downward.get("items"):
        return _files(downward["items"], "DownwardAPI")
    if token := source.get("serviceAccountToken"):
        return [_File(token.get("path", ""), "ServiceAccountToken")]
    if bundle := source.get("clusterTrustBundle"):
        name = bundle.get("name") or bundle.get("signerName", "")
        return [_File(bundle.get("path", ""), f'ClusterTrustBundle "{name}"')]
    certificate = source.get("podCertificate") or {}
    return [
        _File(certificate[key], f"PodCertificate {what}")
        for key, what in (
            ("certificateChainPath", "chain"),
            ("keyPath", "key"),
            ("credentialBundlePath", "credential bundle"),
        )
        if certificate.get(key)
    ]


def _collisions(volume: str, source: str, files: list[_File]) -> Iterator[str]:
    # Check identical files only once, because their warnings would be identical, too.
    seen: set[_File] = set()
    distinct: list[_File] = []
    paths = _Paths()
    for file in files:
        file = _File(file.path.rstrip("/"), file.source)
        if not file.path:
            continue
        for index in paths.find_overlapping(file.path):
            yield f'volume "{volume}" ({source}): overlapping paths: {file} with {distinct[index]}'
        if file not in seen:
            seen.add(file)
            distinct.append(file)
            paths.add(file.path, len(distinct) - 1)


class _Paths:
    """The numbers of files by path. Finds paths that are equal to a path, contain it, or are within it."""

    def __init__(self) -> None:
        self._numbers: dict[str, list[int]] = {}
        self._ordered: list[str] = []
        self._lengths: set[int] = set()

    def add(self, path: str, number: int) -> None:
        if path not in self._numbers:
            insort(self._ordered, path)
            self._lengths.add(len(path))
        self._numbers.setdefault(path, []).append(number)

    def find_overlapping(self, path: str) -> Iterable[int]:
        """Return the numbers of overlapping files, in the order in which they were added."""
        folders = (path[:end] for end in self._lengths if end < len(path) and path[end] == "/")
        # "0" is the character after "/".
        within = slice(bisect_left(self._ordered, f"{path}/"), bisect_left(self._ordered, f"{path}0"))
        return merge(*(self._numbers.get(one, ()) for one in (*folders, path, *self._ordered[within])))
