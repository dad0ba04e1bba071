"""The TrainJob controller.

Mirrors pkg/controller/trainjob_controller.go and pkg/runtime of kubeflow/trainer. What its JobSet is made from is in
:mod:`dra_shared.jobkinds.trainjob`.
"""

import base64
import contextlib
from datetime import timedelta

import msgspec
from dra_shared.api.codec import convert, to_builtins
from dra_shared.api.resources import CONFIG_MAPS, SECRETS
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.rest import PatchType
from dra_shared.clock import parse_rfc3339
from dra_shared.jobkinds.podsets import UnknownReference
from dra_shared.jobkinds.trainjob import build_jobset, find_runtime, list_hosts
from dra_shared.jsontypes import JsonObject

from dra_controller.framework import Context
from dra_controller.jobkinds.controller import Draft, JobKindController
from dra_controller.jobkinds.mpi.sshkey import create_key_pair
from dra_controller.jobkinds.operators import (
    CLUSTER_TRAINING_RUNTIMES,
    JOB_SETS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    Custom,
)
from dra_controller.pods import controller_reference

_GROUP, _MANAGER = "trainer.kubeflow.org", "trainer.kubeflow.org/trainjob-controller"
_COUNTS = ("name", "ready", "succeeded", "failed", "active", "suspended")


class TrainJobController(JobKindController):
    """The controller of kubeflow/trainer for TrainJobs."""

    name = "trainjob-controller"
    queue_name = "trainjob"
    operator = "trainer"
    owner = TRAIN_JOBS
    owned = (JOB_SETS, CONFIG_MAPS, SECRETS)
    event_source = "trainer-trainjob-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._runtimes = {}
        for resource in (TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES):
            informer = self.watch(resource)
            self._runtimes[resource.kind] = informer.store
            informer.add_handler(self._enqueue_users)

    def _enqueue_users(self, runtime: Custom) -> None:
        """Queue the jobs that wait for the runtime."""
        for train in self.owners.store.list():
            if train.spec["runtimeRef"]["name"] == runtime.metadata.name:
                self._enqueue(train)

    async def sync(self, obj: Custom, draft: Draft) -> None:
        if obj.spec.get("managedBy", _MANAGER) != _MANAGER:
            return
        reference = obj.spec["runtimeRef"]
        finished = draft.has("Complete") or draft.has("Failed")
        if reference.get("kind") not in self._runtimes or reference.get("apiGroup") != _GROUP:
            text = f"unsupported runtime: {reference.get('kind')}.{reference.get('apiGroup')}"
            draft.set_condition("Failed", "True", "TrainingRuntimeNotSupported", text)
            return
        if not finished:
            try:
                await self._create_objects(obj)
            except (ApiError, UnknownReference) as error:
                what = str(error) if isinstance(error, ApiError) else f"{error} not found"
                text = f"TrainJob resources reconciliation failed: {what[:950]}"
                self.report(obj, "Warning", "TrainJobResourcesCreationFailed", text)
                if isinstance(error, ApiError):
                    raise
        if obj.spec.get("suspend"):
            draft.set_condition("Suspended", "True", "Suspended", "TrainJob is suspended")
        elif draft.has("Suspended"):
            draft.set_condition("Suspended", "False", "Resumed", "TrainJob is resumed")
        _follow(draft, self.children(JOB_SETS, obj))
        await self._check_deadline(obj, draft)

    def _find(self, kind: str, namespace: str, name: str) -> JsonObject | None:
        found = self._runtimes[kind].get(f"{namespace}/{name}" if namespace else name)
        return to_builtins(found) if found is not None else None

    async def _runtime(self, obj: Custom) -> JsonObject:
        """Return the runtime as it was when the job began, from a ConfigMap in which it was saved.

        Raises:
            UnknownReference: it does not exist.
        """
        name = f"{obj.metadata.name}-runtime-snapshot"
        kept = next((one for one in self.children(CONFIG_MAPS, obj) if one.metadata.name == name), None)
        if kept is not None:
            snapshot: JsonObject = msgspec.json.decode(kept.data["runtime"])
            return snapshot
        runtime = find_runtime(to_builtins(obj), self._find)
        text = msgspec.json.encode(runtime).decode()
        await self.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"runtime": text}}, obj)
        return runtime

    async def _create_objects(self, obj: Custom) -> None:
        train, runtime = to_builtins(obj), await self._runtime(obj)
        built = build_jobset(train, runtime)
        if (runtime["spec"].get("mlPolicy") or {}).get("mpi") is not None:
            await self._create_mpi_objects(obj, list_hosts(train, runtime, built))
        existing = self.children(JOB_SETS, obj)
        if existing and not (obj.spec.get("suspend") or existing[0].spec.get("suspend")):
            return
        if not existing:
            await self.create(JOB_SETS, built, obj)
            return
        parent = to_builtins(controller_reference(self.owner, obj))
        meta = {**built["metadata"], "namespace": obj.metadata.namespace, "ownerReferences": [parent]}
        whole = {"apiVersion": JOB_SETS.api_version, "kind": JOB_SETS.kind, "metadata": meta}
        current, wanted = existing[0].spec, built["spec"]
        if bool(current.get("suspend")) == wanted["suspend"] and _is_within(wanted, current):
            return
        await self._client.patch(
            JOB_SETS,
            obj.metadata.name,
            {**whole, "spec": wanted},
            obj.metadata.namespace,
            patch_type=PatchType.APPLY,
            field_manager="trainer",
            force=True,
        )

    async def _create_mpi_objects(self, obj: Custom, hosts: str) -> None:
        name = obj.metadata.name
        if not self.children(SECRETS, obj):
            private, public = create_key_pair()
            data = {"ssh-privatekey": private, "ssh-publickey": public}
            secret = {
                "metadata": {"name": f"{name}-mpi-ssh-auth"},
                "type": "kubernetes.io/ssh-auth",
                "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
                "immutable": True,
            }
            await self.create(SECRETS, secret, obj)
        file = f"{name}-mpi-hostfile"
        found = next((one for one in self.children(CONFIG_MAPS, obj) if one.metadata.name == file), None)
        if found is None:
            await self.create(CONFIG_MAPS, {"metadata": {"name": file}, "data": {"hostfile": hosts}}, obj)
        elif found.data != {"hostfile": hosts}:
            meta = {"name": file, "namespace": obj.metadata.namespace}
            body = convert(CONFIG_MAPS, {"metadata": meta, "data": {"hostfile": hosts}})
            await self._client.patch(CONFIG_MAPS, file, to_builtins(body), obj.metadata.namespace)

    async def _check_deadline(self, obj: Custom, draft: Draft) -> None:
        seconds = obj.spec.get("activeDeadlineSeconds")
        if not seconds or draft.has("Complete") or draft.has("Failed") or obj.spec.get("suspend"):
            return
        resumed = draft.condition("Suspended")
        start = resumed["lastTransitionTime"] if resumed is not None else obj.metadata.creation_timestamp
        end = parse_rfc3339(start or draft.now) + timedelta(seconds=seconds)
        left = (end - self._clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after(obj.key, left)
            return
        text = "TrainJob exceeded its active deadline"
        draft.set_condition("Failed", "True", "DeadlineExceeded", text)
        # Read it by name from the API server, because the informer may not have it yet.
        with contextlib.suppress(NotFound):
            await self._client.delete(JOB_SETS, obj.metadata.name, obj.metadata.namespace)


def _follow(draft: Draft, jobsets: list[Custom]) -> None:
    """Copy the status of the JobSet to the job."""
    if not jobsets:
        return
    deadline = draft.condition("Failed")
    passed = deadline is not None and deadline["reason"] == "DeadlineExceeded"
    status = jobsets[0].status
    for condition in status.get("conditions", ()):
        name = {"Completed": "Complete", "Failed": "Failed"}.get(condition["type"])
        if name is not None and condition["status"] == "True" and not passed:
            draft.set_condition(name, "True", condition["reason"], condition["message"])
    counts = [{key: one[key] for key in _COUNTS} for one in status.get("replicatedJobsStatus", ())]
    if counts:
        draft.status["jobsStatus"] = counts


def _is_within(wanted: object, current: object) -> bool:
    """Return True if the current value contains the wanted one. It may have defaults in addition."""
    if isinstance(wanted, dict) and isinstance(current, dict):
        return all(_is_within(value, current.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(current, list):
        return len(wanted) == len(current) and all(map(_is_within, wanted, current))
    return wanted == current
