"""coordination.k8s.io/v1 Lease."""

from msgspec import field

from dra_shared.api.meta import Object, Struct


class LeaseSpec(Struct):
    acquire_time: str | None = None
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    preferred_holder: str | None = None
    renew_time: str | None = None
    strategy: str | None = None


class Lease(Object):
    spec: LeaseSpec = field(default_factory=LeaseSpec)
