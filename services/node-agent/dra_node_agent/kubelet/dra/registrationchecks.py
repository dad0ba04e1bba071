"""Check the name and the endpoint of a driver that registers, as the kubelet does since 1.38.

Mirrors ``validateDriverName`` and ``validateEndpoint`` of pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go.
"""

import re

from dra_shared.names import dns_subdomain
from dra_shared.quoting import go_quote

from dra_node_agent.kubelet.dra.connection import DriverError

_NAME_LENGTH = 63
# The maximum length of the path of a Unix socket on Linux.
_PATH_LENGTH = 108
# Characters and sequences that gRPC would not treat as part of a path.
_NOT_PLAIN = re.compile(r"^//|[%?#\x00-\x1f\x7f]")


def check_driver_name(name: str) -> None:
    """Check that the name is valid for a DRA driver.

    Raises:
        DriverError: the name is not valid.
    """
    field = "driverName"
    problems = [] if name else [f"{field}: Required value"]
    if len(name.encode()) > _NAME_LENGTH:
        problems.append(f"{field}: Too long: may not be more than {_NAME_LENGTH} bytes")
    if name:
        texts = dns_subdomain(name.lower())
        problems += [f"{field}: Invalid value: {go_quote(name)}: {text}" for text in texts]
    if problems:
        shown = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise DriverError(f"invalid DRA driver name: {shown}")


def check_endpoint(endpoint: str) -> None:
    """Check that the endpoint is the plain path of a socket.

    Raises:
        DriverError: it is not.
    """
    if not endpoint:
        raise DriverError("empty DRA plugin endpoint")
    about = f"DRA plugin endpoint {go_quote(endpoint)}"
    if not endpoint.startswith("/"):
        raise DriverError(f"{about} must be an absolute path")
    if len(endpoint.encode()) >= _PATH_LENGTH:
        raise DriverError(f"{about} must not be longer than {_PATH_LENGTH} bytes")
    if _NOT_PLAIN.search(endpoint):
        raise DriverError(f"{about} must be a plain path")
