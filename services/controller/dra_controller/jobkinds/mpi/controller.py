"""The MPIJob controller.

Mirrors pkg/controller/mpi_job_controller.go.
"""

from collections.abc import Sequence

from dra_shared.api.batch import Job
from dra_shared.api.codec import convert
from dra_shared.api.meta import Object
from dra_shared.api.pod import Pod
from dra_shared.api.resources import CONFIG_MAPS, JOBS, PODS, SECRETS, SERVICES
from dra_shared.claims import controller_of
from dra_shared.client.errors import ApiError
from msgspec.structs import replace

from dra_controller.framework import Context
from dra_controller.jobkinds.controller import Draft, JobKindController, to_plain
from dra_controller.jobkinds.mpi import pods as made
from dra_controller.jobkinds.mpi.status import set_condition, write_status
from dra_controller.jobkinds.operators import MPI_JOBS, Custom
from dra_controller.pods import OWNER_INDEX, is_ready

_MANAGER = "kubeflow.org/mpi-operator"


class MPIJobController(JobKindController):
    """The controller of kubeflow/mpi-operator."""

    name = "mpijob-controller"
    queue_name = "mpijob"
    operator = "mpi"
    owner = MPI_JOBS
    owned = (PODS, JOBS, SERVICES, CONFIG_MAPS, SECRETS)
    event_source = "mpi-job-controller"
    action = ""
    series = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        pods, jobs = self.watch(PODS), self.watch(JOBS)
        self._pods, self._jobs = pods.store, jobs.store
        pods.add_handler(self._enqueue_of_launcher, lambda _, new: self._enqueue_of_launcher(new))

    def _enqueue_of_launcher(self, pod: Object) -> None:
        """Queue the job of a launcher's pod."""
        owner = controller_of(pod)
        if owner is not None and owner.kind == JOBS.kind:
            job = self._jobs.get(f"{pod.metadata.namespace}/{owner.name}")
            if job is not None:
                self._enqueue_owner(job)

    async def sync(self, obj: Custom, draft: Draft) -> None:
        policy = obj.spec.get("runPolicy") or {}
        if policy.get("managedBy", _MANAGER) != _MANAGER:
            return
        if not draft.status.get("conditions"):
            text = f"MPIJob {obj.key} is created."
            set_condition(draft, "Created", "True", "MPIJobCreated", text)
            draft.event("Normal", "MPIJobCreated", text)
        if (draft.has("Succeeded") or draft.has("Failed")) and draft.status.get("completionTime"):
            if policy.get("cleanPodPolicy") in ("All", "Running"):
                await self._clean_up(obj, draft, running_only=policy["cleanPodPolicy"] == "Running")
            return
        suspended = made.is_suspended(obj)
        if not suspended:
            draft.status.setdefault("startTime", draft.now)
        launcher = next(
            (job for job in self.children(JOBS, obj) if job.metadata.name == made.name_launcher(obj)), None
        )
        workers: list[Pod] = []
        if launcher is None or not _is_finished(launcher):
            await self._create_surroundings(obj)
            if not suspended:
                workers = await self._create_workers(obj)
            if launcher is None:
                await self._create_launcher(obj, workers)
        if launcher is not None and bool(launcher.spec.suspend) != suspended:
            await self._align(obj, launcher, suspended=suspended)
        if suspended:
            await self._clean_up(obj, draft, running_only=False)
        launched = self._pods.by_index(OWNER_INDEX, launcher.metadata.uid) if launcher is not None else ()
        write_status(draft, launcher, launched, workers, made.count_workers(obj), suspended=suspended)

    async def _create_surroundings(self, obj: Custom) -> None:
        """Create the Service, the SSH key and the hostfile, whose script lists the running workers."""
        if not self.children(SERVICES, obj):
            await self.create(SERVICES, made.build_service(obj), obj)
        running = [pod.metadata.name for pod in self._workers(obj) if pod.status.phase == "Running"]
        config = made.build_config(obj, running)
        found = self.children(CONFIG_MAPS, obj)
        if not found:
            await self.create(CONFIG_MAPS, config, obj)
        elif found[0].data != config["data"]:
            await self._client.update(CONFIG_MAPS, replace(found[0], data=config["data"]))
        if not self.children(SECRETS, obj):
            await self.create(SECRETS, made.build_secret(obj), obj)

    def _workers(self, obj: Custom) -> list[Pod]:
        return [pod for pod in self.children(PODS, obj) if pod.metadata.labels.get(made.ROLE) == "worker"]

    async def _create_workers(self, obj: Custom) -> list[Pod]:
        wanted = {made.name_worker(obj, index): index for index in range(made.count_workers(obj))}
        found = {pod.metadata.name: pod for pod in self._workers(obj)}
        await self.delete(PODS, [pod for name, pod in found.items() if name not in wanted])
        for name, index in wanted.items():
            if name in found:
                continue
            try:
                await self.create(PODS, made.build_worker(obj, index), obj)
            except ApiError as error:
                self.report(obj, "Warning", "MPIJobFailed", f"worker pod created failed: {error}")
                raise
        return [found[name] for name in wanted if name in found]

    async def _create_launcher(self, obj: Custom, workers: Sequence[Pod]) -> None:
        late = obj.spec.get("launcherCreationPolicy") == "WaitForWorkersReady"
        ready = sum(map(is_ready, workers))
        if late and (made.is_suspended(obj) or ready < made.count_workers(obj)):
            return
        template = (made.replica_spec(obj, "Launcher") or {})["template"]
        if template["spec"].get("restartPolicy"):
            text = "Restart policy in pod template overridden by restart policy in replica spec"
            self.report(obj, "Warning", "SetPodTemplateRestartPolicy", text)
        try:
            await self.create(JOBS, made.build_launcher(obj), obj)
        except ApiError as error:
            self.report(obj, "Warning", "MPIJobFailed", f"launcher pod created failed: {error}")
            raise

    async def _align(self, obj: Custom, launcher: Job, *, suspended: bool) -> None:
        """Suspend the launcher, or resume it with the template's changes since it was suspended."""
        if suspended:
            await self._client.update(JOBS, replace(launcher, spec=replace(launcher.spec, suspend=True)))
            return
        if launcher.status.start_time is not None:
            status = replace(launcher.status, start_time=None)
            launcher = await self._client.update(JOBS, replace(launcher, status=status), subresource="status")
        body, wanted = to_plain(launcher), made.build_launcher_template(obj)
        pod = body["spec"]["template"]
        for key in ("labels", "annotations"):
            meta = pod.setdefault("metadata", {})
            meta[key] = {**(meta.get(key) or {}), **(wanted["metadata"].get(key) or {})}
        for key in ("nodeSelector", "tolerations", "schedulingGates"):
            pod["spec"].pop(key, None)
            if wanted["spec"].get(key):
                pod["spec"][key] = wanted["spec"][key]
        body["spec"]["suspend"] = False
        await self._client.update(JOBS, convert(JOBS, body))

    async def _clean_up(self, obj: Custom, draft: Draft, *, running_only: bool) -> None:
        """Delete the workers."""
        workers = self._workers(obj)
        if running_only:
            workers = [pod for pod in workers if pod.status.phase in ("Running", "Pending")]
        await self.delete(PODS, workers)
        draft.status.setdefault("replicaStatuses", {})["Worker"] = {}


def _is_finished(job: Job) -> bool:
    return any(one.type in ("Complete", "Failed") and one.status == "True" for one in job.status.conditions)
