"""Errors about the claims of pods."""


class DraError(Exception):
    """Claims of a pod could not be prepared or unprepared. The text is for the pod's event."""


def unknown_claim(name: str, namespace: str) -> DraError:
    """Return the error for a claim that the kubelet should have prepared but does not know."""
    return DraError(
        f"internal error: unable to get claim info for ResourceClaim {name} in namespace {namespace}"
    )
