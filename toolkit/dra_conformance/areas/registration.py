"""Registration: how the kubelet finds a driver (pkg/kubelet/pluginmanager, kubelet/pkg/apis/pluginregistration)."""

import contextlib
import os
import re
import stat

from dra_node_agent.kubelet.dra.wire import CallError
from dra_node_agent.kubelet.registration.registrar import DRA_TYPE

from dra_conformance.check import Area, Breach, NotOffered, Stage, Unmet
from dra_conformance.kubelet import HEALTH_SERVICES, serves, serves_health
from dra_conformance.restarts import kill_driver, replace_instance, stop_driver
from dra_conformance.session import Session

AREA = Area("registration", Stage.START)

_PROTO = "staging/src/k8s.io/kubelet/pkg/apis/pluginregistration/v1/api.proto"
_MANAGER = "pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go"
_KUBELETPLUGIN = "staging/src/k8s.io/dynamic-resource-allocation/kubeletplugin/draplugin.go"
_LONGEST_SOCKET = 107
_LONGEST_NAME = 63
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@AREA.check(
    "appears",
    "the driver registers",
    promise="The driver creates a socket below the kubelet's plugins_registry, and answers GetInfo on it.",
    source=_PROTO,
    cost="The kubelet does not know the driver; pods wait with 'DRA driver … is not registered'.",
)
async def _check_appears(session: Session) -> None:
    if session.start_problem:
        raise Breach(session.start_problem)


@AREA.check(
    "type",
    "the plugin's type is DRAPlugin",
    promise="GetInfo answers with the type DRAPlugin.",
    source=_PROTO,
    cost="The kubelet hands the plugin to another manager, or refuses it: no handler registered for plugin type.",
)
async def _check_type(session: Session) -> None:
    if session.registration.type != DRA_TYPE:
        raise Breach(f"type {session.registration.type!r}, not {DRA_TYPE!r}")


@AREA.check(
    "name",
    "the driver's name is a DNS subdomain",
    promise="The name is a DNS subdomain of at most 63 characters: it is part of slices, claims and socket paths.",
    source="staging/src/k8s.io/api/resource/v1/types.go (DriverNameMaxLength)",
    cost="The API server rejects the driver's slices and status.",
)
async def _check_name(session: Session) -> None:
    name = session.registration.name
    if len(name) > _LONGEST_NAME or not _SUBDOMAIN.fullmatch(name):
        raise Breach(f"name {name!r}")


@AREA.check(
    "endpoint",
    "the driver's endpoint is a unix socket",
    promise="The endpoint in GetInfo is the absolute path of a unix socket.",
    source=_KUBELETPLUGIN,
    cost="The driver is registered, and every call to it fails.",
)
async def _check_endpoint(session: Session) -> None:
    path = session.registration.endpoint
    if not os.path.isabs(path):
        raise Breach(f"endpoint {path!r} is not an absolute path")
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise Breach(f"endpoint {path}: {error.strerror}") from error
    if not stat.S_ISSOCK(mode):
        raise Breach(f"endpoint {path} is not a socket")


@AREA.check(
    "served-first",
    "the driver serves before it registers",
    promise="The endpoint accepts connections when GetInfo answers: the kubelet may call it at once.",
    source=_KUBELETPLUGIN + " (Start: the registration server starts last)",
    cost="Pods that wait for the driver fail to start once, and are delayed by the kubelet's back-off.",
    rests_on=("registration.endpoint",),
)
async def _check_served_first(session: Session) -> None:
    registration = session.registration
    if registration.unserved:
        raise Breach(f"GetInfo answered, and {registration.endpoint}: {registration.unserved}")


@AREA.check(
    "socket-length",
    "the driver's socket paths are short enough for a real node",
    promise="In /var/lib/kubelet the paths of its sockets have at most 107 bytes.",
    source="man 7 unix (sun_path); " + _KUBELETPLUGIN,
    cost="The driver cannot listen on nodes whose kubelet directory or whose pods' UIDs are longer than here.",
)
async def _check_socket_length(session: Session) -> None:
    root = str(session.kubelet.root)
    for path in (session.registration.endpoint, str(session.registration.socket)):
        there = path.replace(root, "/var/lib/kubelet", 1)
        if len(os.fsencode(there)) > _LONGEST_SOCKET:
            raise Breach(f"{there} has {len(os.fsencode(there))} bytes")


@AREA.check(
    "versions",
    "the driver offers a service that the kubelet calls",
    promise="The supported versions name gRPC services, v1.DRAPlugin or v1beta1.DRAPlugin among them.",
    source=_MANAGER + " (validate supported gRPC versions)",
    cost="The kubelet refuses the driver: none of services supported by the plugin are supported by the kubelet.",
)
async def _check_versions(session: Session) -> None:
    if not session.registration.dra_services:
        raise Breach(f"supported versions {list(session.registration.versions)}")


@AREA.check(
    "versions-served",
    "the driver serves what it announces",
    promise="Each service in the supported versions, those for health included, is served at the endpoint.",
    source=_KUBELETPLUGIN,
    cost="The kubelet calls the first service that both know, and each call fails with Unimplemented.",
)
async def _check_versions_served(session: Session) -> None:
    for service in session.registration.dra_services:
        try:
            if not await serves(session.registration, service):
                raise Breach(f"{service} is announced and not implemented")
        except CallError as error:
            raise Unmet(f"a call without claims fails: {error}") from error
    for service in HEALTH_SERVICES:
        offered = service in session.registration.versions
        if offered and not await serves_health(session.registration, service):
            raise Breach(f"{service} is announced and not implemented")


@AREA.check(
    "versions-known",
    "the driver announces only services that kubelets know",
    promise="Supported versions are names of gRPC services, not version numbers.",
    source=_MANAGER,
    cost="A version number, which drivers before Kubernetes 1.31 announced, is refused where it stands alone.",
    recommended=True,
)
async def _check_versions_known(session: Session) -> None:
    known = {"v1.DRAPlugin", "v1beta1.DRAPlugin", "v1alpha4.Node", "v1alpha3.Node", *HEALTH_SERVICES}
    unknown = [version for version in session.registration.versions if version not in known]
    if unknown:
        raise Breach(f"unknown: {', '.join(unknown)}")


@AREA.check(
    "newest-version",
    "the driver offers the v1 service",
    promise="v1.DRAPlugin is among the services: v1beta1 is removed after its deprecation.",
    source="https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4381-dra-structured-parameters",
    cost="The driver stops working with the kubelet that drops v1beta1; shares have no IDs in v1beta1.",
    recommended=True,
    rests_on=("registration.versions",),
)
async def _check_newest_version(session: Session) -> None:
    if "v1.DRAPlugin" not in session.registration.versions:
        raise Breach(f"supported versions {list(session.registration.versions)}")


@AREA.check(
    "notified",
    "the driver accepts the notification of its registration",
    promise="NotifyRegistrationStatus answers without an error within five seconds.",
    source="pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go",
    cost="The kubelet undoes the registration and retries forever.",
)
async def _check_notified(session: Session) -> None:
    if session.notify_problem:
        raise Breach(f"NotifyRegistrationStatus: {session.notify_problem}")


@AREA.check(
    "asked-again",
    "the driver answers a restarted kubelet",
    promise="After a restart of the kubelet GetInfo gives the same answer, and the driver works on.",
    source="pkg/kubelet/pluginmanager/pluginwatcher/plugin_watcher.go",
    cost="After an upgrade of the kubelet no pod with devices starts until the driver is restarted too.",
    stage=Stage.OUTAGE,
    rests_on=("registration.notified",),
)
async def _check_asked_again(session: Session) -> None:
    known = session.registration
    try:
        info = await session.kubelet.ask(known.socket)
        await session.kubelet.notify(known.socket)
    except CallError as error:
        raise Breach(f"after the kubelet came back: {error}") from error
    answered = (info.type, info.name, info.endpoint or str(known.socket), tuple(info.supported_versions))
    if answered != (known.type, known.name, known.endpoint, known.versions):
        raise Breach(f"first {known.name} at {known.endpoint}, then {answered[1]} at {answered[2]}")


@AREA.check(
    "failed",
    "the driver survives a failed registration",
    promise="A driver whose registration fails runs on: the kubelet tries again. It may answer the notification with an"
    " error.",
    source="staging/src/k8s.io/dynamic-resource-allocation/kubeletplugin/registrationserver.go;"
    " pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go",
    cost="A short failure of the kubelet becomes a crash loop of the driver, and pods in start wait for its back-off.",
    recommended=True,
    stage=Stage.OUTAGE,
    rests_on=("registration.asked-again", "prepare.succeeds", "prepare.released"),
)
async def _check_failed(session: Session) -> None:
    socket = session.registration.socket
    async with session.claim(prepare=True):
        # A driver that does not prepare this claim would not prepare the next one either.
        pass
    with contextlib.suppress(CallError):
        await session.kubelet.notify(socket, "the suite lets this registration fail")
    if await session.ends(session.pace.outage):
        raise Breach("it ended when it was told that its registration failed")
    try:
        await session.kubelet.ask(socket)
        await session.kubelet.notify(socket)
    except CallError as error:
        raise Breach(f"after a failed registration: {error}") from error
    async with session.claim() as claim:
        if isinstance(answer := await session.try_prepare(claim), str):
            raise Breach(f"after a failed registration a claim is not prepared: {answer}")


@AREA.check(
    "back-after-kill",
    "the driver registers again after kill -9",
    promise="A driver that was killed can start again: the sockets and files that it left are no obstacle.",
    source=_KUBELETPLUGIN,
    cost="After a crash or an OOM kill the node's devices are lost until somebody removes a file by hand.",
    stage=Stage.RESTART,
    rests_on=("registration.notified",),
)
async def _check_back_after_kill(session: Session) -> None:
    seen = await session.once(kill_driver)
    if seen.problem:
        raise Breach(seen.problem)


@AREA.check(
    "sockets-removed",
    "the driver's registration socket is removed after SIGTERM",
    promise="A driver that is stopped removes its registration socket: this tells the kubelet.",
    source="pkg/kubelet/pluginmanager/pluginwatcher/README.md; " + _KUBELETPLUGIN,
    cost="The kubelet still calls the driver after its exit, and retries the socket as long as it exists.",
    stage=Stage.RESTART,
)
async def _check_sockets_removed(session: Session) -> None:
    seen = await session.once(stop_driver)
    if seen.ended.code is None:
        raise Unmet("the driver had to be killed")
    if seen.sockets:
        raise Breach(f"still there: {', '.join(path.name for path in seen.sockets)}")


@AREA.check(
    "rolling-update",
    "two instances can run at a time",
    promise="An instance with its own socket can start while the other runs. It removes nothing of the old instance,"
    " because the kubelet returns to that one if the new one fails. The old instance removes nothing of the new one.",
    source=_KUBELETPLUGIN + " (RollingUpdate); KEP-4381, seamless upgrades",
    cost="With maxSurge in the DaemonSet an update leaves the node without a driver, or with a dead socket.",
    stage=Stage.RESTART,
    rests_on=("slices.published", "slices.kept-over-restart"),
)
async def _check_rolling_update(session: Session) -> None:
    seen = await session.once(replace_instance)
    if seen.problem:
        raise Breach(seen.problem)


@AREA.check(
    "rolling-update-claims",
    "the newer instance knows the older one's claims",
    promise="The new instance keeps the CDI files of what the old one prepared, gives the same answers for it, and"
    " unprepares it.",
    source=_KUBELETPLUGIN + " (RollingUpdate)",
    cost="Pods that span an update cannot be restarted, or leave devices behind.",
    stage=Stage.RESTART,
    rests_on=(
        "prepare.idempotent",
        "prepare.after-restart",
        "cdi.qualified",
        "cdi.defined",
        "cdi.after-restart",
    ),
)
async def _check_rolling_update_claims(session: Session) -> None:
    seen = await session.once(replace_instance)
    if seen.problem:
        raise Unmet(seen.problem)
    if seen.claims:
        raise Breach(seen.claims)


@AREA.check(
    "first-start",
    "the driver registers within ten seconds",
    promise="The driver registers within ten seconds of its start.",
    source="https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-probes (startup)",
    cost="Pods of a new node wait.",
    recommended=True,
)
async def _check_first_start(session: Session) -> None:
    seconds = session.registration.seconds
    if not session.driver.restarts:
        raise NotOffered("the driver was started by somebody else (--attach)")
    if seconds > 10:
        raise Breach(f"after {seconds:.1f} s")
