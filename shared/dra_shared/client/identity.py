"""Identities of replicas in leader election (cmd/kube-scheduler/app/options)."""

import socket
import uuid


def unique_identity() -> str:
    """Return the host's name with a unique suffix.

    A process ID would not be unique: each container starts with 1, and containers on the host's network share
    its name.
    """
    return f"{socket.gethostname()}_{uuid.uuid4()}"
