"""What goes wrong with the claims of pods."""


class DraError(Exception):
    """Claims of a pod could not be prepared or unprepared; the text is for the pod's event."""


def unknown_claim(name: str, namespace: str) -> DraError:
    """The kubelet knows nothing of a claim that it should have prepared."""
    return DraError(
        f"internal error: unable to get claim info for ResourceClaim {name} in namespace {namespace}"
    )
