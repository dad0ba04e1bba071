"""The driver as a process: it survives, exits when asked, leaks nothing, and keeps secrets out of its log."""

import contextlib

from dra_node_agent.kubelet.dra.connection import DriverError

from dra_conformance.check import Area, Breach, NotOffered, Stage, Unmet
from dra_conformance.checkpointwrites import watch_checkpoint
from dra_conformance.driverprocess import Usage
from dra_conformance.observations import REFUSED, cycle_claims, fail_api_server, refuse_claims
from dra_conformance.restarts import damage_checkpoint, stop_driver
from dra_conformance.session import Session

PROCESS = Area("process", Stage.END)
RESOURCES = Area("resources", Stage.CALLS, rests_on=("prepare.succeeds", "unprepare.succeeds"))
LOGS = Area("logs", Stage.END)

_PODS = "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination"
_LEAKS = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4381-dra-structured-parameters"
_SPARE_FILES, _SPARE_THREADS = 8, 8
_SPARE_MEMORY = 24 << 20
_PANICS = ("panic: ", "goroutine 1 [", "Traceback (most recent call last)", "WARNING: DATA RACE", "SIGSEGV")


@PROCESS.check(
    "alive",
    "the driver never exits by itself",
    promise="No call, claim or API server error makes the driver exit.",
    source=_PODS,
    cost="The node has no devices while the driver restarts, and after some crashes for minutes.",
)
async def _check_alive(session: Session) -> None:
    if session.deaths:
        with contextlib.suppress(Unmet, NotOffered, DriverError):
            # A crash in the middle of a write happens by chance. Only the check of the checkpoint's writes
            # reports it.
            if (await session.once(watch_checkpoint)).in_place:
                raise Unmet("its checkpoint is overwritten in place, which may have made it exit")
        raise Breach(f"the driver ended during {', '.join(session.deaths)}")


@PROCESS.check(
    "stuck",
    "the driver can always prepare other claims",
    promise="After each call, successful or not, the driver prepares other claims for its devices.",
    source="KEP-4381; https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1278",
    cost="No pod can use a device until somebody repairs the driver's checkpoint by hand.",
    rests_on=(
        "registration.notified",
        "slices.complete-after-restart",
        "prepare.half-failed",
        "prepare.idempotent",
        "prepare.concurrent",
        "prepare.cancelled",
        "prepare.released",
        "unprepare.succeeds",
        "unprepare.idempotent",
        "unprepare.concurrent",
        "unprepare.prepared-twice",
        "unprepare.given-up",
        "unprepare.claim-gone",
        "unprepare.files-gone",
        "unprepare.remembered",
        "health.closed",
    ),
)
async def _check_stuck(session: Session) -> None:
    if session.stuck:
        raise Breach(session.stuck[0])


@PROCESS.check(
    "answers",
    "calls to the driver return",
    promise="A call to the driver returns within the kubelet's 45 seconds, whatever the result of earlier calls. In"
    " this run, unanswered calls take less than two minutes in total.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin.go (timeout);"
    " https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/378 (locks)",
    cost="No pod with devices starts or ends on the node until somebody restarts the driver.",
    rests_on=("prepare.succeeds",),
)
async def _check_answers(session: Session) -> None:
    if session.patience.exhaustion:
        raise Breach(session.patience.exhaustion)


@PROCESS.check(
    "outage",
    "the driver survives an API server that fails",
    promise="While all requests are answered with 503 the driver runs on, and works again afterwards.",
    source="https://kubernetes.io/docs/reference/using-api/api-concepts/ (retries)",
    cost="An update of the control plane takes all drivers of the cluster down.",
    stage=Stage.OUTAGE,
)
async def _check_outage(session: Session) -> None:
    if not (await session.once(fail_api_server)).alive:
        raise Breach("it ended meanwhile")


@PROCESS.check(
    "ends",
    "the driver exits on SIGTERM",
    promise="After SIGTERM the driver ends within a pod's grace period of 30 seconds, also while the kubelet watches"
    " its health: a server that waits for all calls waits for that stream.",
    source=_PODS + "; https://github.com/moby/swarmkit/issues/2307 (GracefulStop waits for streams)",
    cost="Each update waits half a minute on each node, and ends with kill -9.",
    stage=Stage.RESTART,
)
async def _check_ends(session: Session) -> None:
    seen = await session.once(stop_driver)
    if seen.ended.code is None:
        raise Breach(f"the driver still ran after {seen.ended.seconds:.0f} s")


@PROCESS.check(
    "exit-code",
    "the exit code after SIGTERM shows no error",
    promise="After SIGTERM the exit code is 0, or that of the signal.",
    source=_PODS,
    cost="Updates look like crashes in the pod's status and in alerts.",
    recommended=True,
    stage=Stage.RESTART,
)
async def _check_exit_code(session: Session) -> None:
    seen = await session.once(stop_driver)
    if seen.ended.code is None:
        raise Unmet("the driver had to be killed")
    if seen.ended.code not in (0, 143, -15):
        raise Breach(f"exit code {seen.ended.code}")


@PROCESS.check(
    "checkpoint-atomic",
    "the driver's checkpoint is never half written",
    promise="A checkpoint is written under another name and renamed, or is a database: a crash leaves the old or the"
    " new one.",
    source="pkg/kubelet/util/store/filestore.go (writeFile: rename); pkg/kubelet/checkpointmanager, which drivers"
    " use, too",
    cost="After a crash or a power cut the driver does not start any more, or forgets which devices are in use.",
    # Run this check after all other calls. Calls without faults come first.
    stage=Stage.OUTAGE,
    rests_on=("prepare.succeeds", "unprepare.succeeds"),
)
async def _check_checkpoint_atomic(session: Session) -> None:
    seen = await session.once(watch_checkpoint)
    if seen.in_place:
        raise Breach(f"overwritten in place: {', '.join(sorted(set(seen.in_place)))}")


@PROCESS.check(
    "damaged-checkpoint",
    "a damaged checkpoint is detected",
    promise="Started with a truncated checkpoint, the driver logs it, and either exits or prepares claims again. With"
    " the intact checkpoint it knows its claims.",
    source="pkg/kubelet/checkpointmanager (ErrCorruptCheckpoint), which drivers use, too",
    cost="After a power cut the driver runs and prepares nothing, or it has forgotten which devices are in use.",
    recommended=True,
    stage=Stage.RESTART,
    rests_on=("prepare.succeeds", "prepare.idempotent", "prepare.after-kill"),
)
async def _check_damaged_checkpoint(session: Session) -> None:
    seen = await session.once(damage_checkpoint)
    files = ", ".join(seen.files)
    if seen.problem and not seen.ended:
        raise Breach(f"with half of {files} it neither ends nor works: {seen.problem}")
    if not seen.problem and isinstance(seen.prepared, str):
        raise Breach(f"with half of {files} it runs, and prepares nothing: {seen.prepared}")
    if seen.repaired:
        raise Breach(f"with {files} as before: {seen.repaired}")
    words = ("checkpoint", "corrupt", "damaged", "checksum", "decod", "pars", "unmarshal", "json")
    names = [name.lower() for name in seen.files]
    if not any(word in seen.log.lower() for word in (*words, *names)):
        raise Breach(f"nothing in its log says that {files} is damaged")


@RESOURCES.check(
    "cycles",
    "the driver prepares many claims in a row",
    promise="Claims can be prepared and unprepared as often as pods come: 1,000 times here, or for 20 seconds.",
    source=_LEAKS,
    cost="The driver works for a week, and then stops working for all pods.",
)
async def _check_cycles(session: Session) -> None:
    seen = await session.once(cycle_claims)
    if seen.problem:
        raise Breach(seen.problem)


@RESOURCES.check(
    "files",
    "no open files are left",
    promise="Files and sockets that a claim needed are closed when it is unprepared.",
    source=_LEAKS,
    cost="After some hundred pods: too many open files.",
)
async def _check_files(session: Session) -> None:
    before, after, count = await _usage(session)
    if after.files > before.files + _SPARE_FILES:
        raise Breach(f"{before.files} open files, {after.files} after {count} claims")


@RESOURCES.check(
    "threads",
    "no threads or processes are left",
    promise="Threads and child processes that a claim needed end with it.",
    source=_LEAKS,
    cost="The pod's limit of processes is reached, and nothing can be prepared.",
)
async def _check_threads(session: Session) -> None:
    before, after, count = await _usage(session)
    if after.threads > before.threads + _SPARE_THREADS:
        raise Breach(f"{before.threads} threads, {after.threads} after {count} claims")


@RESOURCES.check(
    "memory",
    "memory does not grow with claims",
    promise="Memory stays bounded over 1,000 cycles: less than 24 MiB more.",
    source=_LEAKS,
    cost="The driver is killed for its memory limit, every few days.",
)
async def _check_memory(session: Session) -> None:
    before, after, count = await _usage(session)
    if after.memory > before.memory + _SPARE_MEMORY:
        grown = (after.memory - before.memory) >> 20
        raise Breach(f"{grown} MiB more after {count} claims")


async def _usage(session: Session) -> tuple[Usage, Usage, int]:
    """Return the driver's resource usage before and after the cycles of claims, and the number of cycles."""
    seen = await session.once(cycle_claims)
    if seen.before is None or seen.after is None:
        raise NotOffered("the driver's process is not visible")
    return seen.before, seen.after, seen.count


@RESOURCES.check(
    "directories",
    "no files are left on the node",
    promise="The plugins' directory, the registry and the CDI directory have as many files as before.",
    source=_LEAKS,
    cost="The node's disk, or the tmpfs of /var/run, fills up.",
    rests_on=("cdi.gone", "cdi.no-leftovers", "metadata.gone"),
)
async def _check_directories(session: Session) -> None:
    seen = await session.once(cycle_claims)
    if seen.problem:
        raise Unmet(seen.problem)
    if seen.files_after > seen.files_before:
        raise Breach(f"{seen.files_before} files, {seen.files_after} after {seen.count} claims")


@RESOURCES.check(
    "refused",
    "claims that are refused leave nothing open",
    promise="Files, threads and directories for a refused claim are released like those of other claims.",
    source=_LEAKS + "; https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/840",
    cost="A pod that cannot start is retried every minute, until the driver can open no more files.",
    rests_on=("prepare.half-failed", "resources.files", "resources.threads", "resources.directories"),
)
async def _check_refused(session: Session) -> None:
    seen = await session.once(refuse_claims)
    if seen.files_after > seen.files_before:
        raise Breach(
            f"{seen.files_before} files, {seen.files_after} after {REFUSED} claims that were refused"
        )
    if seen.before is None or seen.after is None:
        raise NotOffered("the driver's process is not visible")
    if seen.after.files > seen.before.files + _SPARE_FILES:
        raise Breach(
            f"{seen.before.files} open files, {seen.after.files} after {REFUSED} claims that were refused"
        )
    if seen.after.threads > seen.before.threads + _SPARE_THREADS:
        raise Breach(
            f"{seen.before.threads} threads, {seen.after.threads} after {REFUSED} claims that were refused"
        )


@RESOURCES.check(
    "forgotten",
    "the driver's checkpoint drops refused claims",
    promise="Once a refused claim is unprepared, the checkpoint has no entry for it.",
    source="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/840",
    cost="The checkpoint grows with each pod that fails, and is read and written ever more slowly.",
    recommended=True,
    rests_on=("prepare.half-failed", "resources.refused"),
)
async def _check_forgotten(session: Session) -> None:
    seen = await session.once(refuse_claims)
    if len(seen.remembered) == REFUSED:
        raise Breach(f"the UIDs of all {REFUSED} claims are still in the plugin's directory")


@LOGS.check(
    "no-token",
    "the driver's log has no credentials",
    promise="Tokens of the kubeconfig are not in the log, at any verbosity.",
    source="https://kubernetes.io/docs/concepts/security/rbac-good-practices/",
    cost="Anyone who may read logs acts as the driver on every node.",
)
async def _check_no_token(session: Session) -> None:
    if session.world.token in session.read_output():
        raise Breach("the bearer token is in the log")


@LOGS.check(
    "no-panics",
    "the driver's log has no panics",
    promise="Nothing in this run made the driver panic, not even in a single goroutine or request.",
    source="https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/",
    cost="Locks that a handler holds when it panics stay locked, and the next calls hang.",
)
async def _check_no_panics(session: Session) -> None:
    output = session.read_output()
    for part in session.excused:
        output = output.replace(part, "", 1)
    for sign in _PANICS:
        if sign in output:
            line = output[output.index(sign) :].splitlines()[0]
            raise Breach(line[:200])
