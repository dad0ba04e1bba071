"""Containers, probes and their states in core/v1 pods."""

from msgspec import field

from dra_shared.api.meta import Struct
from dra_shared.api.volume import ObjectFieldSelector, ResourceFieldSelector


class ConfigMapKeySelector(Struct):
    key: str = ""
    name: str = ""
    optional: bool | None = None


class FileKeySelector(Struct):
    key: str = ""
    optional: bool = False
    path: str = ""
    volume_name: str = ""


class SecretKeySelector(Struct):
    key: str = ""
    name: str = ""
    optional: bool | None = None


class EnvVarSource(Struct):
    config_map_key_ref: ConfigMapKeySelector | None = None
    field_ref: ObjectFieldSelector | None = None
    file_key_ref: FileKeySelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    secret_key_ref: SecretKeySelector | None = None


class EnvVar(Struct):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class ConfigMapEnvSource(Struct):
    name: str = ""
    optional: bool | None = None


class SecretEnvSource(Struct):
    name: str = ""
    optional: bool | None = None


class EnvFromSource(Struct):
    config_map_ref: ConfigMapEnvSource | None = None
    prefix: str = ""
    secret_ref: SecretEnvSource | None = None


class ExecAction(Struct):
    command: tuple[str, ...] = ()


class HTTPHeader(Struct):
    name: str = ""
    value: str = ""


class HTTPGetAction(Struct):
    host: str = ""
    http_headers: tuple[HTTPHeader, ...] = ()
    path: str = ""
    port: int | str = 0
    protocol: str = ""
    scheme: str = ""


class SleepAction(Struct):
    seconds: int = 0


class TCPSocketAction(Struct):
    host: str = ""
    port: int | str = 0


class LifecycleHandler(Struct):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    sleep: SleepAction | None = None
    tcp_socket: TCPSocketAction | None = None


class Lifecycle(Struct):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class GRPCAction(Struct):
    mode: str = ""
    port: int = 0
    service: str = ""


class Probe(Struct):
    exec: ExecAction | None = None
    failure_threshold: int | None = None
    grpc: GRPCAction | None = None
    http_get: HTTPGetAction | None = None
    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    tcp_socket: TCPSocketAction | None = None
    termination_grace_period_seconds: int | None = None
    timeout_seconds: int | None = None


class ContainerPort(Struct):
    container_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    host_port: int | None = None
    name: str = ""
    protocol: str = ""


class ContainerResizePolicy(Struct):
    resource_name: str = ""
    restart_policy: str = ""


class ResourceClaim(Struct):
    name: str = ""
    request: str = ""


class ResourceRequirements(Struct):
    claims: tuple[ResourceClaim, ...] = ()
    limits: dict[str, str] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)


class ContainerRestartRuleOnExitCodes(Struct):
    operator: str = ""
    values: tuple[int, ...] = ()


class ContainerRestartRule(Struct):
    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class AppArmorProfile(Struct):
    localhost_profile: str = ""
    type: str = ""


class Capabilities(Struct):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SELinuxOptions(Struct):
    level: str = ""
    role: str = ""
    type: str = ""
    user: str = ""


class SeccompProfile(Struct):
    localhost_profile: str = ""
    type: str = ""


class WindowsSecurityContextOptions(Struct):
    gmsa_credential_spec: str = ""
    gmsa_credential_spec_name: str = ""
    host_process: bool | None = None
    run_as_user_name: str = ""


class SecurityContext(Struct):
    allow_privilege_escalation: bool | None = None
    app_armor_profile: AppArmorProfile | None = None
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    proc_mount: str = ""
    read_only_root_filesystem: bool | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    windows_options: WindowsSecurityContextOptions | None = None


class VolumeDevice(Struct):
    device_path: str = ""
    name: str = ""


class VolumeMount(Struct):
    bind_mount_options: tuple[str, ...] = ()
    mount_path: str = ""
    mount_propagation: str = ""
    name: str = ""
    read_only: bool | None = None
    recursive_read_only: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


class Container(Struct):
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    image: str = ""
    image_pull_policy: str = ""
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str = ""
    ports: tuple[ContainerPort, ...] = ()
    readiness_probe: Probe | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    tty: bool | None = None
    volume_devices: tuple[VolumeDevice, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    working_dir: str = ""


class EphemeralContainer(Container):
    target_container_name: str = ""


class ResourceHealth(Struct):
    health: str = ""
    message: str = ""
    resource_id: str = field(default="", name="resourceID")


class ResourceStatus(Struct):
    name: str = ""
    resources: tuple[ResourceHealth, ...] = ()


class ContainerStateRunning(Struct):
    started_at: str | None = None


class ContainerStateTerminated(Struct):
    container_id: str = field(default="", name="containerID")
    exit_code: int = 0
    finished_at: str | None = None
    message: str = ""
    reason: str = ""
    signal: int | None = None
    started_at: str | None = None


class ContainerStateWaiting(Struct):
    message: str = ""
    reason: str = ""


class ContainerState(Struct):
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


class LinuxContainerUser(Struct):
    gid: int = 0
    supplemental_groups: tuple[int, ...] = ()
    uid: int = 0


class ContainerUser(Struct):
    linux: LinuxContainerUser | None = None


class ImageVolumeStatus(Struct):
    image_ref: str = ""


class VolumeStatus(Struct):
    image: ImageVolumeStatus | None = None


class VolumeMountStatus(Struct):
    mount_path: str = ""
    name: str = ""
    read_only: bool | None = None
    recursive_read_only: str = ""
    volume_status: VolumeStatus | None = None


class ContainerStatus(Struct):
    allocated_resources: dict[str, str] = field(default_factory=dict)
    allocated_resources_status: tuple[ResourceStatus, ...] = ()
    container_id: str = field(default="", name="containerID")
    image: str = ""
    image_id: str = field(default="", name="imageID")
    last_state: ContainerState = field(default_factory=ContainerState)
    name: str = ""
    ready: bool = False
    resources: ResourceRequirements | None = None
    restart_count: int = 0
    started: bool | None = None
    state: ContainerState = field(default_factory=ContainerState)
    stop_signal: str | None = None
    user: ContainerUser | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] = ()


class Sysctl(Struct):
    name: str = ""
    value: str = ""


class PodSecurityContext(Struct):
    app_armor_profile: AppArmorProfile | None = None
    fs_group: int | None = None
    fs_group_change_policy: str = ""
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_change_policy: str = ""
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str = ""
    sysctls: tuple[Sysctl, ...] = ()
    windows_options: WindowsSecurityContextOptions | None = None
