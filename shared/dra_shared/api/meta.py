"""meta.k8s.io/v1: the metadata that every object has, and the Status of errors."""

from typing import dataclass_transform

import msgspec
from msgspec import field


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A part of an API object.

    Parts are immutable, because informers share them between all their readers. Change one with
    ``msgspec.structs.replace``. Parts form trees without cycles, so the garbage collector skips them. Unknown
    fields are dropped on decoding. So patch an object from a newer server, or update only its status; writing
    the whole object back would remove those fields.
    """


class OwnerReference(Struct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct):
    """An object's metadata without managedFields.

    Upstream's informers drop managedFields too. A write without them leaves the stored ones unchanged.
    """

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Object(Struct):
    """A whole API object. ``api_version`` and ``kind`` are set when it is encoded."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    @property
    def key(self) -> str:
        """``namespace/name``, or ``name`` for a cluster-scoped object: the key in stores and work queues."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class ListMeta(Struct):
    resource_version: str = ""
    continue_: str = field(default="", name="continue")
    remaining_item_count: int | None = None


class LabelSelectorRequirement(Struct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct):
    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class ConditionFields(Struct):
    """The fields that the conditions of all kinds have."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class Condition(ConditionFields):
    observed_generation: int | None = None


class StatusCause(Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int | None = None


class Status(Struct):
    """The response of the API server if there is no object to return, most often an error."""

    api_version: str = "v1"
    kind: str = "Status"
    metadata: ListMeta = field(default_factory=ListMeta)
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class Unread(Object):
    """The type of an object whose JSON is not decoded, because the caller does not need the response of a write."""
