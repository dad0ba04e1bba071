"""The RayJob controller.

Mirrors ray-operator/controllers/ray/rayjob_controller.go. The operator asks Ray's dashboard for the state of the job.
Here the state comes from the submitter: the job runs while the submitter runs, and ends with the same result.
"""

from datetime import timedelta

from dra_shared.api.batch import Job
from dra_shared.api.pod import Pod
from dra_shared.api.resources import JOBS, PODS
from dra_shared.client.errors import ApiError
from dra_shared.clock import parse_rfc3339

from dra_controller.framework import Context
from dra_controller.jobkinds.controller import Draft, JobKindController
from dra_controller.jobkinds.operators import RAY_CLUSTERS, RAY_JOBS, Custom
from dra_controller.jobkinds.ray import names
from dra_controller.jobkinds.ray.cluster import random_suffix
from dra_controller.jobkinds.ray.submission import SUBMITTER, build_cluster, build_submitter
from dra_controller.pods import OWNER_INDEX

_STATUS = "jobDeploymentStatus"
_FINAL = ("Complete", "Failed")
# The status fields that are removed for a new attempt.
_ATTEMPT = ("rayClusterStatus", "rayClusterName", "dashboardURL", "jobId", "message", "reason", "rayJobInfo")


class RayJobController(JobKindController):
    """The controller of ray-project/kuberay for RayJobs."""

    name = "rayjob-controller"
    queue_name = "rayjob"
    operator = "ray"
    owner = RAY_JOBS
    owned = (RAY_CLUSTERS, JOBS)
    event_source = "rayjob-controller"
    action = "Create"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        clusters = self.watch(RAY_CLUSTERS)
        self._clusters = clusters.store
        self._pods = self.watch(PODS).store
        self._jobs = self.watch(JOBS).store
        clusters.add_handler(None, lambda _, new: self._enqueue_users(new))

    def _enqueue_users(self, cluster: Custom) -> None:
        """Queue the jobs that select the cluster."""
        for job in self.owners.store.list():
            if job.status.get("rayClusterName") == cluster.metadata.name:
                self._enqueue(job)

    async def sync(self, obj: Custom, draft: Draft) -> None:
        if obj.spec.get("managedBy", names.MANAGER) != names.MANAGER:
            return
        status = draft.status
        before = status.get(_STATUS, "")
        if before in _FINAL:
            await self._clean_up(obj, draft)
            return
        if before == "":
            _begin(obj, draft)
        elif before in ("Suspending", "Retrying"):
            await self._release(obj, draft)
        elif before == "Suspended":
            if not obj.spec.get("suspend"):
                status[_STATUS] = ""
        elif obj.spec.get("suspend") and before in ("Initializing", "Running"):
            status[_STATUS] = "Suspending"
        elif not self._check_deadlines(obj, draft):
            await self._run(obj, draft)
        _count(obj, draft)

    def _check_deadlines(self, obj: Custom, draft: Draft) -> bool:
        """Fail the job if it takes too long. Return True if it has failed."""
        limits = [("activeDeadlineSeconds", "DeadlineExceeded")]
        if draft.status[_STATUS] != "Running":
            limits.append(("preRunningDeadlineSeconds", "PreRunningDeadlineExceeded"))
        started = parse_rfc3339(draft.status["startTime"])
        for field, reason in limits:
            seconds = obj.spec.get(field)
            if seconds is None:
                continue
            left = (started + timedelta(seconds=seconds) - self._clock.now()).total_seconds()
            if left > 0:
                self.queue.add_after(obj.key, left)
                continue
            text = f"The RayJob has passed the {field}. StartTime: {started}. {field[0].upper()}{field[1:]}: {seconds}"
            _end(draft, "Failed", reason, text)
            return True
        return False

    async def _run(self, obj: Custom, draft: Draft) -> None:
        status, mode = draft.status, obj.spec.get("submissionMode", "K8sJobMode")
        name = status["rayClusterName"]
        cluster = self._clusters.get(f"{obj.metadata.namespace}/{name}")
        if cluster is None:
            await self._create_cluster(obj, name)
            return
        if status[_STATUS] == "Waiting":
            if obj.spec.get("jobId"):
                status |= {"jobId": obj.spec["jobId"], _STATUS: "Running"}
            return
        status["rayClusterStatus"] = cluster.status
        if status[_STATUS] == "Running":
            self._follow(obj, draft, cluster)
            return
        if "dashboardURL" not in status:
            if cluster.status.get("state") != "ready":
                return
            port = (cluster.status.get("endpoints") or {}).get("dashboard", "8265")
            status["dashboardURL"] = f"{names.service_domain(cluster)}:{port}"
        if mode == "InteractiveMode":
            status[_STATUS] = "Waiting"
            return
        if mode == "K8sJobMode":
            await self._submit(obj, draft, cluster)
        status[_STATUS] = "Running"

    async def _create_cluster(self, obj: Custom, name: str) -> None:
        where = f"{obj.metadata.namespace}/{name}"
        if obj.spec.get("clusterSelector"):
            text = f"RayCluster {where} set in the clusterSelector is not found. It must be created manually"
            self.report(obj, "Warning", "RayClusterNotFound", text, "Validate")
            self.queue.add_after(obj.key, 3.0)
            return
        try:
            made = await self.create(RAY_CLUSTERS, build_cluster(obj, name), obj)
        except ApiError as error:
            text = f"Failed to create RayCluster {where}: {error}"
            self.report(obj, "Warning", "FailedToCreateRayCluster", text)
            raise
        if made:
            self.report(obj, "Normal", "CreatedRayCluster", f"Created RayCluster {where}")

    async def _submit(self, obj: Custom, draft: Draft, cluster: Custom) -> None:
        current = Custom(metadata=obj.metadata, spec=obj.spec, status=draft.status)
        try:
            made = await self.create(JOBS, build_submitter(current, cluster.spec), obj)
        except ApiError as error:
            text = f"Failed to create new Kubernetes Job {obj.key}: {error}"
            self.report(obj, "Warning", "FailedToCreateRayJobSubmitter", text)
            raise
        if made:
            self.report(obj, "Normal", "CreatedRayJobSubmitter", f"Created Kubernetes Job {obj.key}")

    def _follow(self, obj: Custom, draft: Draft, cluster: Custom) -> None:
        """Set the state of the job to the state of its submitter."""
        mode = obj.spec.get("submissionMode", "K8sJobMode")
        if mode == "SidecarMode":
            running, succeeded = self._look_at_sidecar(cluster)
        else:
            job = self._jobs.get(obj.key)
            running, succeeded = _look_at_job(job)
        if succeeded is None:
            if running and draft.status.get("jobStatus") != "RUNNING":
                draft.status["jobStatus"] = "RUNNING"
                draft.status["rayJobInfo"] = {"startTime": draft.now}
            elif not running:
                draft.status.setdefault("jobStatus", "PENDING")
            return
        draft.status["jobStatus"] = "SUCCEEDED" if succeeded else "FAILED"
        draft.status["rayJobInfo"] = {**draft.status.get("rayJobInfo", {}), "endTime": draft.now}
        if succeeded:
            _end(draft, "Complete", "", "Job finished successfully.")
        else:
            _end(draft, "Failed", "AppFailed", "Job entrypoint command failed.")

    def _look_at_sidecar(self, cluster: Custom) -> tuple[bool, bool | None]:
        pods: list[Pod] = list(self._pods.by_index(OWNER_INDEX, cluster.metadata.uid))
        heads = [pod for pod in pods if pod.metadata.labels.get(names.NODE_TYPE) == "head"]
        for one in (one for head in heads for one in head.status.container_statuses):
            if one.name == SUBMITTER and one.state is not None:
                ended = one.state.terminated
                return one.state.running is not None, None if ended is None else ended.exit_code == 0
        return False, None

    async def _release(self, obj: Custom, draft: Draft) -> None:
        """Delete cluster and submitter. Once both are gone, the job is suspended, or begins again."""
        await self._delete_cluster(obj)
        job = self._jobs.get(obj.key)
        if job is not None and job.metadata.deletion_timestamp is None:
            await self.delete(JOBS, [job], "Background")
            text = f"Deleted submitter K8s Job {obj.key}"
            self.report(obj, "Normal", "DeletedRayJobSubmitter", text, "Delete")
        if self.children(RAY_CLUSTERS, obj) or job is not None:
            return
        for field in _ATTEMPT:
            draft.status.pop(field, None)
        draft.status["jobStatus"] = ""
        draft.status[_STATUS] = "Suspended" if draft.status[_STATUS] == "Suspending" else ""

    async def _delete_cluster(self, obj: Custom) -> None:
        for cluster in self.children(RAY_CLUSTERS, obj):
            if cluster.metadata.deletion_timestamp is None:
                await self.delete(RAY_CLUSTERS, [cluster])
                self.report(obj, "Normal", "DeletedRayCluster", f"Deleted cluster {cluster.key}", "Delete")

    async def _clean_up(self, obj: Custom, draft: Draft) -> None:
        """Delete the cluster of a job that has ended, if the job asks for it."""
        if obj.spec.get("clusterSelector"):
            return
        seconds = obj.spec.get("ttlSecondsAfterFinished", 0)
        policy = "DeleteCluster" if obj.spec.get("shutdownAfterJobFinishes") else ""
        strategy = obj.spec.get("deletionStrategy")
        if strategy is not None:
            succeeded = draft.status.get("jobStatus") == "SUCCEEDED"
            chosen = strategy.get("onSuccess" if succeeded else "onFailure") or {}
            policy = chosen.get("policy", "")
            for rule in strategy.get("deletionRules") or ():
                wanted = rule["condition"].get("jobStatus", draft.status.get("jobStatus"))
                if wanted == draft.status.get("jobStatus"):
                    policy, seconds = rule["policy"], rule["condition"].get("ttlSeconds", 0)
        if not policy:
            return
        ended = parse_rfc3339(draft.status["endTime"]) + timedelta(seconds=seconds)
        left = (ended - self._clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after(obj.key, left)
        elif policy == "DeleteCluster":
            await self._delete_cluster(obj)
        elif policy == "DeleteSelf":
            await self.delete(self.owner, [obj])
        elif policy == "DeleteWorkers":
            for cluster in self.children(RAY_CLUSTERS, obj):
                groups = cluster.spec.get("workerGroupSpecs") or []
                if not all(group.get("suspend") for group in groups):
                    spec = {"workerGroupSpecs": [{**group, "suspend": True} for group in groups]}
                    meta = cluster.metadata
                    await self._client.patch(RAY_CLUSTERS, meta.name, {"spec": spec}, meta.namespace)
                    text = f"Set the `suspend` field to true for all worker groups in cluster {cluster.key}"
                    self.report(obj, "Normal", "UpdatedRayCluster", text, "Update")


def _begin(obj: Custom, draft: Draft) -> None:
    """Choose the names of the attempt, before anything is created."""
    status, spec = draft.status, obj.spec
    if spec.get("submissionMode") != "InteractiveMode":
        status.setdefault("jobId", spec.get("jobId") or f"{obj.metadata.name}-{random_suffix()}")
    selected = (spec.get("clusterSelector") or {}).get("ray.io/cluster")
    status.setdefault("rayClusterName", selected or f"{obj.metadata.name}-{random_suffix()}")
    status |= {_STATUS: "Initializing", "startTime": draft.now}
    status.setdefault("jobStatus", "")


def _end(draft: Draft, state: str, reason: str, message: str) -> None:
    draft.status |= {_STATUS: state, "message": message, "endTime": draft.now}
    if reason:
        draft.status["reason"] = reason


def _count(obj: Custom, draft: Draft) -> None:
    """Count the attempt if it has ended, and start another one if the backoff limit allows it."""
    status = draft.status
    failed, succeeded = status.get("failed", 0), status.get("succeeded", 0)
    if status[_STATUS] == "Failed":
        failed += 1
        if failed <= obj.spec.get("backoffLimit", 0) and status.get("reason") != "DeadlineExceeded":
            status[_STATUS] = "Retrying"
    if status[_STATUS] == "Complete":
        succeeded += 1
    status |= {"failed": failed, "succeeded": succeeded}


def _look_at_job(job: Job | None) -> tuple[bool, bool | None]:
    """Return whether the submitter is running, and whether it has succeeded; None while this is undecided."""
    if job is None:
        return False, None
    for condition in job.status.conditions:
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            return False, condition.type == "Complete"
    return bool(job.status.ready), None
