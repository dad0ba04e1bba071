"""The names of a driver's sockets (RollingUpdateRegistrarSocketFile of kubeletplugin's draplugin.go)."""

import base64
import hashlib
import os
from pathlib import Path

# The maximum length of a socket's path in bytes. Upstream includes the zero byte at its end.
PATH_MAX = 107
_SUFFIX = "-reg.sock"


def registration_socket(registrar: Path, driver: str, instance: str) -> Path:
    """Return the socket in the registration directory on which the kubelet finds the driver.

    Args:
        registrar: the directory where plugins register.
        instance: the UID of the driver's pod, if several of its instances may serve at once. Where the path is too
            long with it, its hash stands for it, and then a hash of both for driver and UID.
    """
    if not instance:
        return registrar / f"{driver}{_SUFFIX}"
    both = f"{driver}\0{instance}"
    names = (
        f"{driver}-{instance}{_SUFFIX}",
        f"{driver}-{_hash(instance, 8)}{_SUFFIX}",
        f"dra-{_hash(both, 16)}{_SUFFIX}",
    )
    paths = [registrar / name for name in names]
    return next((path for path in paths if len(os.fsencode(path)) <= PATH_MAX), paths[-1])


def _hash(text: str, size: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:size]).decode().rstrip("=")
