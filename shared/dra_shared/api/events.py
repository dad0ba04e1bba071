"""events.k8s.io/v1."""

from msgspec import field

from dra_shared.api.core import EventSeries
from dra_shared.api.meta import Object
from dra_shared.api.pod import ObjectReference


class Event(Object):
    action: str = ""
    event_time: str | None = None
    note: str = ""
    reason: str = ""
    regarding: ObjectReference = field(default_factory=ObjectReference)
    reporting_controller: str = ""
    reporting_instance: str = ""
    series: EventSeries | None = None
    type: str = ""
