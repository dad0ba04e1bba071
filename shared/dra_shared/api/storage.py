"""PersistentVolumes of core/v1, and the kinds of storage.k8s.io/v1 that scheduling depends on."""

from msgspec import field

from dra_shared.api.meta import LabelSelector, Object, Struct
from dra_shared.api.node import NodeSelector
from dra_shared.api.pod import ObjectReference


class CSIPersistentVolumeSource(Struct):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Struct):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct):
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, str] = field(default_factory=dict)
    claim_ref: ObjectReference | None = None
    csi: CSIPersistentVolumeSource | None = None
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None


class PersistentVolumeStatus(Struct):
    phase: str = ""


class PersistentVolume(Object):
    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = field(default_factory=PersistentVolumeStatus)


class TopologySelectorLabelRequirement(Struct):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Object):
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    provisioner: str = ""
    volume_binding_mode: str | None = None


class VolumeNodeResources(Struct):
    count: int | None = None


class CSINodeDriver(Struct):
    allocatable: VolumeNodeResources | None = None
    name: str = ""


class CSINodeSpec(Struct):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object):
    spec: CSINodeSpec = field(default_factory=CSINodeSpec)


class CSIDriverSpec(Struct):
    storage_capacity: bool | None = None


class CSIDriver(Object):
    spec: CSIDriverSpec = field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(Object):
    capacity: str | None = None
    maximum_volume_size: str | None = None
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""


class VolumeAttachmentSource(Struct):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = field(default_factory=VolumeAttachmentSource)


class VolumeAttachment(Object):
    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)
