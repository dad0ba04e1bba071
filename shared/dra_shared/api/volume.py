"""The volumes of core/v1 pods."""

from typing import Any

from msgspec import field

from dra_shared.api.meta import Struct
from dra_shared.jsontypes import JsonObject


class KeyToPath(Struct):
    key: str = ""
    mode: int | None = None
    path: str = ""
    user: int | None = None


class ConfigMapVolumeSource(Struct):
    default_mode: int | None = None
    default_user: int | None = None
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
    user: int | None = None


class DownwardAPIVolumeSource(Struct):
    default_mode: int | None = None
    default_user: int | None = None
    items: tuple[DownwardAPIVolumeFile, ...] = ()


class EmptyDirVolumeSource(Struct):
    medium: str = ""
    mode: int | None = None
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
    user: int | None = None


class VolumeProjection(Struct):
    cluster_trust_bundle: dict[str, Any] | None = None
    config_map: ConfigMapProjection | None = None
    downward_api: DownwardAPIProjection | None = field(default=None, name="downwardAPI")
    pod_certificate: dict[str, Any] | None = None
    secret: SecretProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolumeSource(Struct):
    default_mode: int | None = None
    default_user: int | None = None
    sources: tuple[VolumeProjection, ...] = ()


class SecretVolumeSource(Struct):
    default_mode: int | None = None
    default_user: int | None = None
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None
    secret_name: str = ""


class ImageVolumeSource(Struct):
    pull_policy: str = ""
    reference: str = ""


# Volume sources without a struct are kept as plain objects, because services read few of their fields. They must be
# complete, because the pods of a template are written with them.
class Volume(Struct):
    aws_elastic_block_store: JsonObject | None = None
    azure_disk: JsonObject | None = None
    azure_file: JsonObject | None = None
    cephfs: JsonObject | None = None
    cinder: JsonObject | None = None
    config_map: ConfigMapVolumeSource | None = None
    csi: JsonObject | None = None
    downward_api: DownwardAPIVolumeSource | None = field(default=None, name="downwardAPI")
    empty_dir: EmptyDirVolumeSource | None = None
    ephemeral: JsonObject | None = None
    fc: JsonObject | None = None
    flex_volume: JsonObject | None = None
    flocker: JsonObject | None = None
    gce_persistent_disk: JsonObject | None = None
    git_repo: JsonObject | None = None
    glusterfs: JsonObject | None = None
    host_path: HostPathVolumeSource | None = None
    image: ImageVolumeSource | None = None
    iscsi: JsonObject | None = None
    name: str = ""
    nfs: JsonObject | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    photon_persistent_disk: JsonObject | None = None
    portworx_volume: JsonObject | None = None
    projected: ProjectedVolumeSource | None = None
    quobyte: JsonObject | None = None
    rbd: JsonObject | None = None
    scale_io: JsonObject | None = field(default=None, name="scaleIO")
    secret: SecretVolumeSource | None = None
    storageos: JsonObject | None = None
    vsphere_volume: JsonObject | None = None
