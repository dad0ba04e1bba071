"""Device metadata: files that describe a container's devices to its programs (KEP-5304)."""

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dra_driverkit.cdi import Spec
from dra_driverkit.metadata import GROUP, V1BETA1, container_path, known_versions
from dra_shared.claims import POD_CLAIM_ANNOTATION
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37

from dra_conformance.check import Area, Breach, NotOffered, Unmet
from dra_conformance.claims import Claim, Device, Result
from dra_conformance.session import Session, cdi_ids

AREA = Area("metadata", rests_on=("prepare.succeeds", "prepare.several-devices", "cdi.defined"), since=V1_36)

_WRITER = "staging/src/k8s.io/dynamic-resource-allocation/kubeletplugin/metadata.go"
_TYPES = "staging/src/k8s.io/dynamic-resource-allocation/api/metadata"
_ROOT = "/var/run/kubernetes.io/dra-device-attributes/"
_POD_CLAIM = "gpus-of-the-pod"


@dataclass
class _File:
    """A file that is mounted into containers: its path on the host and in containers, options, content and mode."""

    host: Path
    target: str
    options: tuple[str, ...]
    text: str
    mode: int

    def documents(self) -> list[JsonObject]:
        """Return the JSON objects in the file.

        Raises:
            Unmet: it is not a stream of JSON objects, which another check reports.
        """
        try:
            found = list(_documents(self.text))
        except ValueError as error:
            raise Unmet(f"{self.host}: {error}") from error
        if not found:
            raise Unmet(f"{self.host} is empty")
        return found


@dataclass
class Described:
    """A claim with a request for each device, and the metadata files of its containers."""

    claim: Claim
    devices: dict[str, Device]
    files: list[_File] = field(default_factory=list)
    left: list[Path] = field(default_factory=list)

    def file_of(self, session: Session, request: str) -> _File:
        """Return the file of a request.

        Raises:
            Unmet: no file is mounted at the path where programs look.
        """
        target = container_path(session.name, self.claim.name, None, request)
        for file in self.files:
            if file.target == target:
                return file
        raise Unmet(f"nothing is mounted at {target}")


async def observe_metadata(session: Session) -> Described:
    """Prepare a claim with two requests, read the metadata files of its containers, and unprepare it.

    Raises:
        NotOffered: the driver mounts no metadata files.
    """
    try:
        devices = session.pick(2)
    except NotOffered:
        devices = session.pick()
    named = {f"r{number}": device for number, device in enumerate(devices)}
    async with session.claim([Result(device, request) for request, device in named.items()]) as claim:
        seen = Described(claim, named, _files(session, cdi_ids(await session.prepare_or_skip(claim))))
        if not seen.files:
            raise NotOffered("the driver mounts no files that describe devices")
        await session.unprepare_or_skip(claim)
        seen.left = [file.host for file in seen.files if file.host.exists()]
    return seen


@AREA.check(
    "mounted",
    "each request's file is mounted at the documented path",
    promise="For each request a file is mounted below /var/run/kubernetes.io/dra-device-attributes, under the claim's"
    " name, the request's and the driver's.",
    source=_TYPES + "/helpers.go",
    cost="Programs do not find out which devices they have.",
    rests_on=("cdi.right-device",),
)
async def _check_mounted(session: Session) -> None:
    seen = await session.once(observe_metadata)
    wanted = {container_path(session.name, seen.claim.name, None, request) for request in seen.devices}
    if missing := wanted - {file.target for file in seen.files}:
        raise Breach(f"not mounted: {', '.join(sorted(missing))}")


@AREA.check(
    "template",
    "files of claims from a template are named after the pod's claim",
    promise="If the claim's annotation has the name of the pod's claim, the path has that name.",
    source=_TYPES + "/helpers.go (ResourceClaimTemplateFilePath)",
    cost="A program would have to know the random name of its pod's claim.",
    rests_on=("metadata.mounted",),
)
async def _check_template(session: Session) -> None:
    await session.once(observe_metadata)
    annotations = {POD_CLAIM_ANNOTATION: _POD_CLAIM}
    async with session.claim(annotations=annotations) as claim:
        files = _files(session, cdi_ids(await session.prepare_or_skip(claim)))
    wanted = container_path(session.name, claim.name, _POD_CLAIM, "r0")
    found = {file.target for file in files}
    if wanted not in found:
        raise Breach(f"not mounted: {wanted}; mounted: {', '.join(sorted(found))}")


@AREA.check(
    "subrequests",
    "metadata of an alternative has its request's name",
    promise="For a device that was allocated for r0/large, the path has r0: containers know only this name.",
    source=_WRITER + " (BaseRequestRef); https://github.com/kubernetes/website/pull/54716",
    cost="With firstAvailable, a program does not find out which device it has.",
    rests_on=("metadata.mounted", "prepare.subrequests"),
)
async def _check_subrequests(session: Session) -> None:
    await session.once(observe_metadata)
    async with session.claim([Result(session.pick()[0], "r0/large")]) as claim:
        files = _files(session, cdi_ids(await session.prepare_or_skip(claim)))
    wanted = container_path(session.name, claim.name, None, "r0")
    found = {file.target for file in files}
    if wanted not in found:
        raise Breach(f"not mounted: {wanted}; mounted: {', '.join(sorted(found))}")


@AREA.check(
    "readable",
    "every user of the container can read metadata files",
    promise="The files are readable for all: containers need not run as root.",
    source=_WRITER + " (metadataFilePerms 0644)",
    cost="Programs in containers that do not run as root cannot read the files.",
)
async def _check_readable(session: Session) -> None:
    for file in (await session.once(observe_metadata)).files:
        if not file.mode & stat.S_IROTH:
            raise Breach(f"{file.host.name} has the mode {stat.S_IMODE(file.mode):o}")


@AREA.check(
    "read-only",
    "containers cannot change metadata files",
    promise="The files are mounted with the option ro.",
    source=_WRITER + " (writeCDISpec)",
    cost="A container can change what the other containers of its claim read.",
)
async def _check_read_only(session: Session) -> None:
    for file in (await session.once(observe_metadata)).files:
        if "ro" not in file.options:
            raise Breach(f"{file.target} is mounted with {', '.join(file.options) or 'no options'}")


@AREA.check(
    "stream",
    "metadata files are streams of JSON that libraries read",
    promise="A file has objects of kind DeviceMetadata of metadata.resource.k8s.io in JSON: in v1alpha1 for programs of"
    " Kubernetes 1.36, which know no other version, in v1alpha1 or v1beta1 since.",
    source="staging/src/k8s.io/dynamic-resource-allocation/devicemetadata (DecodeMetadataFromStream)",
    cost="Programs cannot read the files.",
)
async def _check_stream(session: Session) -> None:
    for file in (await session.once(observe_metadata)).files:
        try:
            documents = list(_documents(file.text))
        except ValueError as error:
            raise Breach(f"{file.host.name}: {error}") from error
        kinds = [(one.get("apiVersion"), one.get("kind")) for one in documents]
        known = {(version, "DeviceMetadata") for version in known_versions(session.version)}
        if not known & set(kinds):
            raise Breach(f"no DeviceMetadata in a known version of {GROUP}; the file has {kinds}")


@AREA.check(
    "newest-version",
    "they include v1beta1",
    promise="One of the objects is of metadata.resource.k8s.io/v1beta1: v1alpha1 may go with the next release.",
    source="https://github.com/kubernetes/kubernetes/issues/138994",
    cost="Programs that are built for the next release cannot read the files.",
    recommended=True,
    rests_on=("metadata.stream",),
    since=V1_37,
)
async def _check_newest_version(session: Session) -> None:
    for file in (await session.once(observe_metadata)).files:
        versions = [str(one.get("apiVersion")) for one in file.documents()]
        if V1BETA1 not in versions:
            raise Breach(f"{file.target}: {', '.join(versions)}")


@AREA.check(
    "equivalent",
    "all versions of the metadata have the same content",
    promise="All objects of a file are equivalent: a program reads the first object whose version it knows.",
    source=_WRITER + "; https://github.com/kubernetes/website/pull/54716",
    cost="An upgrade of the program changes what it knows of its devices.",
    rests_on=("metadata.stream",),
)
async def _check_equivalent(session: Session) -> None:
    for file in (await session.once(observe_metadata)).files:
        contents = [{**one, "apiVersion": ""} for one in file.documents()]
        if any(one != contents[0] for one in contents):
            raise Breach(f"{file.target} has {len(contents)} objects that differ")


@AREA.check(
    "claim",
    "metadata files name their claim",
    promise="Name, namespace and UID are the claim's.",
    source=_TYPES + "/types.go",
    cost="A program reports to the wrong claim.",
    rests_on=("metadata.stream",),
)
async def _check_claim(session: Session) -> None:
    seen = await session.once(observe_metadata)
    for file in seen.files:
        for document in file.documents():
            meta = document.get("metadata") or {}
            if (meta.get("name"), meta.get("uid")) != (seen.claim.name, seen.claim.uid):
                raise Breach(f"claim {seen.claim.name} ({seen.claim.uid}), and the file has {meta}")


@AREA.check(
    "devices",
    "metadata files have the request's devices",
    promise="The file of a request has that request and exactly the devices that were allocated for it.",
    source=_TYPES + "/types.go (DeviceMetadataRequest)",
    cost="A program opens another device than its own.",
    rests_on=("metadata.mounted", "metadata.stream"),
)
async def _check_devices(session: Session) -> None:
    seen = await session.once(observe_metadata)
    for request, device in seen.devices.items():
        for document in seen.file_of(session, request).documents():
            found = _by_request(document)
            if found != {request: [(session.name, device.pool, device.name)]}:
                raise Breach(f"request {request} has {device.name}; its file has {found}")


@AREA.check(
    "attributes",
    "metadata files have the attributes of the slice",
    promise="The file has all attributes of a device that its slice has.",
    source="staging/src/k8s.io/dynamic-resource-allocation/kubeletplugin/draplugin.go (DeviceMetadata)",
    cost="A program would have to ask the API server for the attributes, which it may not.",
    recommended=True,
    rests_on=("metadata.devices", "slices.steady"),
)
async def _check_attributes(session: Session) -> None:
    seen = await session.once(observe_metadata)
    for request, device in seen.devices.items():
        wanted = {_qualify(session, name) for name in device.spec.get("attributes") or ()}
        for document in seen.file_of(session, request).documents():
            described_devices = [
                one for part in document.get("requests") or () for one in part.get("devices") or ()
            ]
            known = {
                _qualify(session, name) for one in described_devices for name in one.get("attributes") or ()
            }
            if missing := wanted - known:
                raise Breach(f"{device.name} has no {', '.join(sorted(missing))}")


@AREA.check(
    "gone",
    "metadata files are removed with their claim",
    promise="Once the claim is unprepared, its files are removed from the node.",
    source=_WRITER + " (cleanupClaim)",
    cost="The next claim of that name shows the devices of the last one; the disk fills up.",
    rests_on=("unprepare.succeeds",),
)
async def _check_gone(session: Session) -> None:
    if left := (await session.once(observe_metadata)).left:
        raise Breach(f"still there: {', '.join(map(str, left))}")


def _files(session: Session, ids: list[str]) -> list[_File]:
    """Return the metadata files that containers with these CDI devices get."""
    wanted, found = set(ids), {}
    for spec in session.cdi.specs().values():
        if not isinstance(spec, Spec):
            continue
        for device in spec.devices:
            if f"{spec.kind}={device.name}" not in wanted:
                continue
            for mount in device.container_edits.mounts:
                if mount.container_path.startswith(_ROOT):
                    host = Path(mount.host_path)
                    text = host.read_text(errors="replace") if host.is_file() else ""
                    mode = host.stat().st_mode if host.is_file() else 0
                    found[mount.container_path] = _File(host, mount.container_path, mount.options, text, mode)
    return list(found.values())


def _documents(text: str) -> Iterator[JsonObject]:
    """Yield the objects of a JSON stream.

    Raises:
        ValueError: the text is not a stream of JSON objects.
    """
    decoder, rest = json.JSONDecoder(), text.lstrip()
    while rest:
        document, end = decoder.raw_decode(rest)
        if not isinstance(document, dict):
            raise ValueError(f"{document!r} is not an object")
        yield document
        rest = rest[end:].lstrip()


def _by_request(document: JsonObject) -> dict[str, list[tuple[str, str, str]]]:
    return {
        part.get("name", ""): [
            (one.get("driver", ""), one.get("pool", ""), one.get("name", ""))
            for one in part.get("devices") or ()
        ]
        for part in document.get("requests") or ()
    }


def _qualify(session: Session, name: str) -> str:
    return name if "/" in name else f"{session.name}/{name}"
