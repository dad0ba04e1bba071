"""The phases of preparing and unpreparing a pod's claims (prepareResources in pkg/kubelet/cm/dra/manager.go).

The order makes a crash between any two phases harmless. Claims are checked before any state changes, so a
pod that fails there needs no cleanup. The pod is in the checkpoint before a driver is called, so a restart
finds everything that the driver may have prepared. The drivers' answers are in the checkpoint before a
container starts. A claim leaves the checkpoint only after every driver has unprepared it.
"""

from enum import StrEnum


class PreparePhase(StrEnum):
    """The progress of preparing a pod's claims."""

    NEW = "New"
    VALIDATED = "Validated"
    RESERVED = "Reserved"
    CALLED = "Called"
    PREPARED = "Prepared"


class PrepareEvent(StrEnum):
    """The events that end a phase of preparing."""

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
    """The progress of unpreparing a pod's claims."""

    IN_USE = "InUse"
    CALLED = "UnprepareCalled"
    UNPREPARED = "Unprepared"


class UnprepareEvent(StrEnum):
    """The events that end a phase of unpreparing."""

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
