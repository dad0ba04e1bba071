"""The phases in which a pod's claims are prepared and unprepared (prepareResources in pkg/kubelet/cm/dra/manager.go).

The order makes a crash between any two phases harmless. Claims are checked before any state changes, so a pod that
fails there needs no clean-up. The pod is in the checkpoint before a driver is called, so a restart finds what the
driver may have prepared. The drivers' answers are in the checkpoint before a container starts. A claim leaves the
checkpoint only after every driver has unprepared it.
"""

from enum import StrEnum


class PreparePhase(StrEnum):
    """How far the claims of a pod are prepared."""

    NEW = "New"
    VALIDATED = "Validated"
    RESERVED = "Reserved"
    CALLED = "Called"
    PREPARED = "Prepared"


class PrepareEvent(StrEnum):
    """What ends a phase of preparing."""

    VALIDATE = "every claim checked"
    RESERVE = "pod noted at its claims in the checkpoint"
    CALL = "a driver answered NodePrepareResources"
    SAVE = "answers in the checkpoint"
    SKIP = "no claim to prepare"


PREPARE = {
    PreparePhase.NEW: {PrepareEvent.VALIDATE: PreparePhase.VALIDATED},
    PreparePhase.VALIDATED: {PrepareEvent.RESERVE: PreparePhase.RESERVED},
    PreparePhase.RESERVED: {
        PrepareEvent.CALL: PreparePhase.CALLED,
        PrepareEvent.SKIP: PreparePhase.PREPARED,
    },
    PreparePhase.CALLED: {
        PrepareEvent.CALL: PreparePhase.CALLED,
        PrepareEvent.SAVE: PreparePhase.PREPARED,
    },
    PreparePhase.PREPARED: dict[PrepareEvent, PreparePhase](),
}


class UnpreparePhase(StrEnum):
    """How far the claims of a pod are unprepared."""

    IN_USE = "InUse"
    CALLED = "UnprepareCalled"
    UNPREPARED = "Unprepared"


class UnprepareEvent(StrEnum):
    """What ends a phase of unpreparing."""

    CALL = "a driver answered NodeUnprepareResources"
    SAVE = "claims out of the checkpoint"


UNPREPARE = {
    UnpreparePhase.IN_USE: {
        UnprepareEvent.CALL: UnpreparePhase.CALLED,
        UnprepareEvent.SAVE: UnpreparePhase.UNPREPARED,
    },
    UnpreparePhase.CALLED: {
        UnprepareEvent.CALL: UnpreparePhase.CALLED,
        UnprepareEvent.SAVE: UnpreparePhase.UNPREPARED,
    },
    UnpreparePhase.UNPREPARED: dict[UnprepareEvent, UnpreparePhase](),
}
