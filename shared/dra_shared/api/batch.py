"""batch/v1 Job and CronJob."""

from msgspec import field

from dra_shared.api.meta import ConditionFields, LabelSelector, Object, ObjectMeta, Struct
from dra_shared.api.pod import ObjectReference, PodTemplateSpec


class PodFailurePolicyOnExitCodesRequirement(Struct):
    container_name: str = ""
    operator: str = ""
    values: tuple[int, ...] = ()


class PodFailurePolicyOnPodConditionsPattern(Struct):
    status: str = ""
    type: str = ""


class PodFailurePolicyRule(Struct):
    action: str = ""
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodConditionsPattern, ...] = ()


class PodFailurePolicy(Struct):
    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(Struct):
    succeeded_count: int | None = None
    succeeded_indexes: str = ""


class SuccessPolicy(Struct):
    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(Struct):
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    completion_mode: str = ""
    completions: int | None = None
    managed_by: str = ""
    manual_selector: bool | None = None
    max_failed_indexes: int | None = None
    parallelism: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str = ""
    selector: LabelSelector | None = None
    success_policy: SuccessPolicy | None = None
    suspend: bool | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    ttl_seconds_after_finished: int | None = None


class JobCondition(ConditionFields):
    last_probe_time: str | None = None


class UncountedTerminatedPods(Struct):
    failed: tuple[str, ...] = ()
    succeeded: tuple[str, ...] = ()


class JobStatus(Struct):
    active: int | None = None
    completed_indexes: str = ""
    completion_time: str | None = None
    conditions: tuple[JobCondition, ...] = ()
    failed: int | None = None
    failed_indexes: str = ""
    ready: int | None = None
    start_time: str | None = None
    succeeded: int | None = None
    terminating: int | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(Object):
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)


class JobTemplateSpec(Struct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobSpec = field(default_factory=JobSpec)


class CronJobSpec(Struct):
    concurrency_policy: str = ""
    failed_jobs_history_limit: int | None = None
    job_template: JobTemplateSpec = field(default_factory=JobTemplateSpec)
    schedule: str = ""
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int | None = None
    suspend: bool | None = None
    time_zone: str = ""


class CronJobStatus(Struct):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Object):
    spec: CronJobSpec = field(default_factory=CronJobSpec)
    status: CronJobStatus = field(default_factory=CronJobStatus)
