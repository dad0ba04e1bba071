"""The volumes of core/v1 pods."""

from typing import Any

from msgspec import field

from dra_shared.api.meta import Struct


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


# Volume sources of which services read single fields at most. They are kept whole, because pod templates are
# written back as pods.
Source = dict[str, Any]


class Volume(Struct):
    aws_elastic_block_store: Source | None = None
    azure_disk: Source | None = None
    azure_file: Source | None = None
    cephfs: Source | None = None
    cinder: Source | None = None
    config_map: ConfigMapVolumeSource | None = None
    csi: Source | None = None
    downward_api: DownwardAPIVolumeSource | None = field(default=None, name="downwardAPI")
    empty_dir: EmptyDirVolumeSource | None = None
    ephemeral: Source | None = None
    fc: Source | None = None
    flex_volume: Source | None = None
    flocker: Source | None = None
    gce_persistent_disk: Source | None = None
    git_repo: Source | None = None
    glusterfs: Source | None = None
    host_path: HostPathVolumeSource | None = None
    image: ImageVolumeSource | None = None
    iscsi: Source | None = None
    name: str = ""
    nfs: Source | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    photon_persistent_disk: Source | None = None
    portworx_volume: Source | None = None
    projected: ProjectedVolumeSource | None = None
    quobyte: Source | None = None
    rbd: Source | None = None
    scale_io: Source | None = field(default=None, name="scaleIO")
    secret: SecretVolumeSource | None = None
    storageos: Source | None = None
    vsphere_volume: Source | None = None
