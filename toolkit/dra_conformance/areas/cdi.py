"""CDI: how a container gets its devices (https://github.com/cncf-tags/container-device-interface, SPEC.md)."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from dra_driverkit.cdi import Mount, Spec, SpecError, minimum_version, parse_qualified_name
from dra_driverkit.cdi.spec import VERSIONS

from dra_conformance.check import Area, Breach, NotOffered, NotShown, Stage, Unmet
from dra_conformance.claims import Result
from dra_conformance.observations import Prepared, prepare_one_claim
from dra_conformance.restarts import kill_driver
from dra_conformance.session import Session, cdi_ids

AREA = Area("cdi", rests_on=("prepare.succeeds", "unprepare.succeeds"))

_SPEC = "https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md"
_GO = "https://github.com/cncf-tags/container-device-interface/blob/main/pkg/cdi"
_PROTO = "staging/src/k8s.io/kubelet/pkg/apis/dra/v1/api.proto (Device.cdi_device_ids)"


@AREA.check(
    "qualified",
    "CDI ids are qualified names",
    promise="Each id is vendor/class=device, of the characters that CDI allows.",
    source=_GO + "/qualified-device.go",
    cost="The container engine refuses the container: unqualified device.",
)
async def _check_qualified(session: Session) -> None:
    seen = await session.once(prepare_one_claim)
    if not seen.ids:
        raise NotOffered("the driver gives no CDI ids")
    for one in seen.ids:
        try:
            parse_qualified_name(one)
        except ValueError as error:
            raise Breach(str(error)) from error


@AREA.check(
    "defined",
    "each id is defined when the driver answers",
    promise="When NodePrepareResources answers, a file in the CDI directory defines each device that it names.",
    source=_PROTO,
    cost="The container engine fails at once: unresolvable CDI devices. Pods start at the second try, or never.",
    rests_on=("cdi.qualified",),
)
async def _check_defined(session: Session) -> None:
    seen = await _observe_files(session)
    if seen.missing:
        raise Breach(f"no file defines {', '.join(seen.missing)}")


@AREA.check(
    "schema",
    "CDI files follow the specification",
    promise="Files are YAML or JSON of CDI's schema: known fields, kinds, names, edits that are not empty.",
    source=_SPEC,
    cost="The engine skips the whole file, and each container that needs it fails.",
    rests_on=("cdi.qualified",),
)
async def _check_schema(session: Session) -> None:
    seen = await _observe_files(session)
    for name, spec in seen.specs.items():
        if isinstance(spec, SpecError) and not _is_version_error(spec):
            raise Breach(str(spec).replace(f"{session.cdi.directory}/", "") or name)


@AREA.check(
    "version-enough",
    "the CDI version covers the fields that are used",
    promise="cdiVersion is a known version, and no field needs a newer one.",
    source=_GO + "/version.go (MinimumRequiredVersion)",
    cost="Engines refuse the file, as its version is too low.",
)
async def _check_version_enough(session: Session) -> None:
    seen = await _observe_files(session)
    for name, spec in seen.specs.items():
        if isinstance(spec, SpecError) and _is_version_error(spec):
            raise Breach(f"{name}: {str(spec).rpartition(': ')[2]}")


@AREA.check(
    "version-lowest",
    "the CDI version is no higher than needed",
    promise="cdiVersion is the lowest that has the fields that are used.",
    source=_GO + "/version.go (MinimumRequiredVersion)",
    cost="Engines that are a year old refuse a file that they could read.",
    recommended=True,
)
async def _check_version_lowest(session: Session) -> None:
    seen = await _observe_files(session)
    for name, spec in seen.specs.items():
        if not isinstance(spec, Spec):
            continue
        needed = minimum_version(_with_digits(spec, seen.claim.uid))
        if VERSIONS.index(spec.cdi_version) > VERSIONS.index(needed):
            raise Breach(f"{name} has {spec.cdi_version}, and {needed} would do")


@AREA.check(
    "unique",
    "no device is defined twice",
    promise="A qualified name is defined in one file.",
    source=_SPEC + "; " + _GO + "/cache.go (conflicting devices)",
    cost="Engines drop a device that two files define: unresolvable.",
)
async def _check_unique(session: Session) -> None:
    seen = await _observe_files(session)
    twice = [name for name, count in Counter(seen.defined).items() if count > 1]
    if twice:
        raise Breach(f"defined more than once: {', '.join(twice)}")


@AREA.check(
    "own-claims",
    "two claims have different CDI names",
    promise="The devices of two claims that are prepared at the same time have different CDI names.",
    source=_GO + "/cache.go (conflicting devices)",
    cost="The second pod's file hides the first one's: a container that restarts gets the other's device.",
    rests_on=("cdi.unique",),
)
async def _check_own_claims(session: Session) -> None:
    first, second = session.pick(2)
    async with session.claim([Result(first)]) as one, session.claim([Result(second)]) as other:
        answers = [await session.prepare_or_skip(one), await session.prepare_or_skip(other)]
        twice = [name for name, count in Counter(session.cdi.device_names()).items() if count > 1]
        if twice and not (await session.once(prepare_one_claim)).missing:
            alone = Counter((await session.once(prepare_one_claim)).defined)
            if all(alone[name] < 2 for name in twice):
                raise Breach(f"both claims' files define {', '.join(twice)}")
        edits = [set(cdi_ids(answer)) for answer in answers]
        if edits[0] and edits[0] == edits[1]:
            raise Breach(f"both claims get {', '.join(sorted(edits[0]))}")


@AREA.check(
    "atomic",
    "CDI files are written atomically",
    promise="A file is written under another name and renamed: engines read the directory at any moment.",
    source=_GO + "/spec.go (write: rename)",
    cost="Now and then an engine reads half a file, and unrelated containers fail.",
    stage=Stage.END,
)
async def _check_atomic(session: Session) -> None:
    _ = await _observe_files(session)
    if session.cdi.written_in_place:
        names = sorted(session.cdi.written_in_place)
        raise Breach(f"written in place: {', '.join(names[:3])}")


@AREA.check(
    "writable",
    "other users cannot change CDI files",
    promise="Files in the CDI directory cannot be written by every user of the node.",
    source=_SPEC + " (hooks run with the rights of the container engine)",
    cost="Any user of the node becomes root: the engine runs the hooks that the file names.",
)
async def _check_writable(session: Session) -> None:
    seen = await _observe_files(session)
    if seen.writable:
        raise Breach(f"every user may write {', '.join(seen.writable)}")


@AREA.check(
    "gone",
    "CDI files are removed with their claim",
    promise="Once the claim is unprepared, its files are removed and its devices are not defined any more.",
    source=_PROTO,
    cost="Files pile up until the engine takes seconds to read them, and old names still give access to devices.",
)
async def _check_gone(session: Session) -> None:
    seen = await _observe_files(session)
    if seen.left or seen.still:
        raise Breach(f"still there: {', '.join(sorted(seen.left) or seen.still)}")


@AREA.check(
    "hooks",
    "hooks are programs that exist",
    promise="The path of each hook is an executable on the host.",
    source=_SPEC + " (hooks)",
    cost="The container does not start: no such file or directory, in the engine's words.",
)
async def _check_hooks(session: Session) -> None:
    seen = await _observe_files(session)
    hooks = [hook for edits in _all_edits(seen) for hook in edits.hooks]
    if not hooks:
        raise NotOffered("no file has hooks")
    for hook in hooks:
        if not _is_program(hook.path):
            raise Breach(f"{hook.hook_name}: {hook.path}")


@AREA.check(
    "mounts",
    "mounted paths exist",
    promise="The host path of each mount exists when the driver answers.",
    source=_SPEC + " (mounts)",
    cost="The container does not start.",
    rests_on=("cdi.gone",),
)
async def _check_mounts(session: Session) -> None:
    async with session.claim() as claim:
        await session.prepare_or_skip(claim)
        mounts = [
            mount
            for spec in session.cdi.specs().values()
            if isinstance(spec, Spec)
            for edits in _edits_of_spec(spec)
            for mount in edits.mounts
        ]
        if not mounts:
            raise NotOffered("no file has mounts")
        for mount in mounts:
            if _is_missing(mount):
                raise Breach(f"{mount.host_path} for {mount.container_path}")


@AREA.check(
    "own-directories",
    "containers see none of the driver's directories",
    promise="No mount has the directory of the plugin, of all plugins, of their registration, or of CDI as a whole.",
    source=_SPEC
    + " (mounts); https://kubernetes.io/docs/concepts/security/pod-security-standards/ (host paths)",
    cost="A container reads what other claims were given, or connects to the driver's socket and takes any device.",
    rests_on=("cdi.mounts",),
)
async def _check_own_directories(session: Session) -> None:
    plugins, endpoint = session.kubelet.plugins, Path(session.registration.endpoint)
    private = {
        plugins,
        endpoint.parent,
        session.kubelet.registry,
        session.cdi.directory,
        session.kubelet.root,
    }
    async with session.claim() as claim:
        await session.prepare_or_skip(claim)
        for spec in session.cdi.specs().values():
            for edits in _edits_of_spec(spec) if isinstance(spec, Spec) else ():
                for mount in edits.mounts:
                    if Path(mount.host_path) in private:
                        raise Breach(f"{mount.host_path} is mounted at {mount.container_path}")


@AREA.check(
    "environment",
    "devices of a claim do not overwrite each other's environment",
    promise="If two devices of a claim set a variable, they set the same value, or the name differs for each device.",
    source=_SPEC + " (env: later entries win)",
    cost="The container sees one of its two devices.",
    recommended=True,
)
async def _check_environment(session: Session) -> None:
    results = [Result(device, f"r{number}") for number, device in enumerate(session.pick(2))]
    async with session.claim(results) as claim:
        answer = await session.prepare_or_skip(claim)
        wanted = set(cdi_ids(answer))
        values: dict[str, set[str]] = {}
        for spec in session.cdi.specs().values():
            if not isinstance(spec, Spec):
                continue
            for device in spec.devices:
                if f"{spec.kind}={device.name}" in wanted:
                    for name, value in device.container_edits.environment().items():
                        values.setdefault(name, set()).add(value)
        for name, known in values.items():
            if len(known) > 1:
                raise Breach(f"{name} is {' and '.join(sorted(known))}")


@AREA.check(
    "own-files",
    "CDI files of other vendors are left alone",
    promise="Files of other vendors in the directory stay as they are.",
    source=_SPEC + " (the directory is shared)",
    cost="Containers of another vendor's devices fail.",
    stage=Stage.RESTART,
)
async def _check_own_files(session: Session) -> None:
    path = session.cdi.directory / "vendor.example.com-conformance.json"
    content = msgspec.json.encode(
        {
            "cdiVersion": "0.3.0",
            "kind": "vendor.example.com/conformance",
            "devices": [{"name": "one", "containerEdits": {"env": ["CONFORMANCE=1"]}}],
        }
    )
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.replace(path)
    try:
        await session.restart(kill=False)
        async with session.claim(prepare=True) as claim:
            await session.unprepare_or_skip(claim)
        if not path.exists() or path.read_bytes() != content:
            raise Breach(f"{path.name} was changed or removed")
    finally:
        path.unlink(missing_ok=True)


@AREA.check(
    "no-leftovers",
    "no temporary files are left",
    promise="Once nothing is prepared, the directory has no files except specs.",
    source=_GO + "/spec.go",
    cost="The directory fills up; it is often on a small tmpfs.",
    recommended=True,
    stage=Stage.CALLS,
)
async def _check_no_leftovers(session: Session) -> None:
    async with session.claim(prepare=True) as claim:
        await session.unprepare_or_skip(claim)
    if left := session.cdi.others():
        raise Breach(", ".join(sorted(left)[:5]))


@AREA.check(
    "after-restart",
    "a restart keeps the files of running pods",
    promise="The files of prepared claims exist after a restart, without a new preparation.",
    source="https://github.com/kubernetes/kubernetes/issues/141433; pkg/kubelet/cm/dra/claiminfo.go (prepared)",
    cost="Containers of running pods that restart fail each time: the kubelet does not prepare them again.",
    stage=Stage.RESTART,
    rests_on=("cdi.defined", "unprepare.others-kept"),
)
async def _check_after_restart(session: Session) -> None:
    seen = await session.once(kill_driver)
    if seen.problem:
        raise Unmet(seen.problem)
    if seen.missing:
        raise Breach(f"not defined after the restart: {', '.join(seen.missing)}")


@AREA.check(
    "restored",
    "a preparation restores lost files",
    promise="If a prepared claim's file is lost, as after a reboot, preparing it again writes the file.",
    source="https://github.com/kubernetes/kubernetes/pull/141966 (PrepareResourceClaims guarantees);"
    " a driver that knows a reboot by the boot ID does without",
    recommended=True,
    cost="/var/run is empty after a reboot, the checkpoint is not: pods hang in CreateContainerError.",
    rests_on=(
        "prepare.idempotent",
        "cdi.defined",
    ),
)
async def _check_restored(session: Session) -> None:
    async with session.claim() as claim:
        answer = await session.prepare_or_skip(claim)
        own = [one for one in session.cdi.names() if claim.uid in one]
        if not own or session.cdi.undefined_names(cdi_ids(answer)):
            raise NotShown("the claim has no file with its UID in its name")
        for name in own:
            (session.cdi.directory / name).unlink()
        again = await session.try_prepare(claim)
        if isinstance(again, str):
            raise Breach(again)
        if missing := session.cdi.undefined_names(cdi_ids(again)):
            raise Breach(f"answered, and no file defines {', '.join(missing)}")


async def _observe_files(session: Session) -> Prepared:
    seen = await session.once(prepare_one_claim)
    if not seen.ids:
        raise NotOffered("the driver gives no CDI ids")
    return seen


def _is_program(path: str) -> bool:
    return Path(path).is_file() and os.access(path, os.X_OK)


def _is_missing(mount: Mount) -> bool:
    return mount.type in ("", "bind") and not Path(mount.host_path).exists()


def _with_digits(spec: Spec, uid: str) -> Spec:
    """Return the spec with a UID at the start of names that begins with a digit.

    Names with a digit first need a newer version, and whether a UID has one is chance.
    """
    devices = tuple(
        msgspec.structs.replace(one, name=f"0{one.name[1:]}") if one.name.startswith(uid) else one
        for one in spec.devices
    )
    return msgspec.structs.replace(spec, devices=devices)


def _is_version_error(error: SpecError) -> bool:
    text = str(error)
    return "invalid version" in text or "spec version must be" in text


def _edits_of_spec(spec: Spec) -> list[Any]:
    return [spec.container_edits, *(device.container_edits for device in spec.devices)]


def _all_edits(seen: Prepared) -> list[Any]:
    return [edits for spec in seen.specs.values() if isinstance(spec, Spec) for edits in _edits_of_spec(spec)]
