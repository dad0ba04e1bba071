"""What replicas call themselves in leader election (cmd/kube-scheduler/app/options)."""

import socket
import uuid


def unique_identity() -> str:
    """The host's name and what no other process has.

    A process's number would not do: in containers all begin with 1, and those on the host's network share its name.
    """
    return f"{socket.gethostname()}_{uuid.uuid4()}"
