"""The volumes of core/v1 pods that the node side understands."""

from msgspec import field

from dra_shared.api.meta import Struct


class KeyToPath(Struct):
    key: str = ""
    mode: int | None = None
    path: str = ""


class ConfigMapVolumeSource(Struct):
    default_mode: int | None = None
    items: tuple[KeyToPath, ...] = ()
    name: str = ""
    optional: bool | None = None


class ObjectFieldSelector(Struct):
    api_version: str = ""
    field_path: str = ""


class ResourceFieldSelector(Struct):
    container_name: str = ""
    divisor: str | None = None
    resource: str = ""


class DownwardAPIVolumeFile(Struct):
    field_ref: ObjectFieldSelector | None = None
    mode: int | None = None
    path: str = ""
    resource_field_ref: ResourceFieldSelector | None = None


class DownwardAPIVolumeSource(Struct):
    default_mode: int | None = None
    items: tuple[DownwardAPIVolumeFile, ...] = ()


class EmptyDirVolumeSource(Struct):
    medium: str = ""
    size_limit: str | None = None


class HostPathVolumeSource(Struct):
    path: str = ""
    type: str = ""


class PersistentVolumeClaimVolumeSource(Struct):
    claim_name: str = ""
    read_only: bool | None = None


class ConfigMapProjection(Struct):
    items: tuple[KeyToPath, ...] = ()
    name: str = ""
    optional: bool | None = None


class DownwardAPIProjection(Struct):
    items: tuple[DownwardAPIVolumeFile, ...] = ()


class SecretProjection(Struct):
    items: tuple[KeyToPath, ...] = ()
    name: str = ""
    optional: bool | None = None


class ServiceAccountTokenProjection(Struct):
    audience: str = ""
    expiration_seconds: int | None = None
    path: str = ""


class VolumeProjection(Struct):
    config_map: ConfigMapProjection | None = None
    downward_api: DownwardAPIProjection | None = field(default=None, name="downwardAPI")
    secret: SecretProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolumeSource(Struct):
    default_mode: int | None = None
    sources: tuple[VolumeProjection, ...] = ()


class SecretVolumeSource(Struct):
    default_mode: int | None = None
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None
    secret_name: str = ""


class ImageVolumeSource(Struct):
    pull_policy: str = ""
    reference: str = ""


class Volume(Struct):
    config_map: ConfigMapVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = field(default=None, name="downwardAPI")
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    image: ImageVolumeSource | None = None
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    secret: SecretVolumeSource | None = None
