"""Validate probes and lifecycle hooks of containers."""

from __future__ import annotations

import re
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.counts import check_not_negative
from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field, not_supported

_SCHEMES = ("HTTP", "HTTPS")
_PROTOCOLS = ("HTTP1", "HTTP2")
_GRPC_MODES = ("Plaintext", "TLS")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_KINDS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PORT_NAME_LENGTH = 15
_HIGHEST_PORT = 65535


def port_number(port: int) -> list[str]:
    """Return the errors of a port's number."""
    return [] if 1 <= port <= _HIGHEST_PORT else [f"must be between 1 and {_HIGHEST_PORT}, inclusive"]


def port_name(name: str) -> list[str]:
    """Return the errors of a port's name."""
    problems = []
    if len(name.encode()) > _PORT_NAME_LENGTH:
        problems.append(f"must be no more than {_PORT_NAME_LENGTH} characters")
    if not re.fullmatch("[-a-z0-9]+", name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name and (name[0] == "-" or name[-1] == "-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def check_port(port: Any, path: str) -> list[FieldError]:
    """Validate a port's number or name."""
    problems = port_name(port) if isinstance(port, str) else port_number(port or 0)
    return [invalid(path, port or 0 if not isinstance(port, str) else port, text) for text in problems]


def check_probe(probe: JsonObject | None, kind: str, path: str) -> list[FieldError]:
    """Validate a liveness, readiness or startup probe."""
    if probe is None:
        return []
    errors = _check_handler(probe, None, path)
    for field in _NUMBERS:
        errors += check_not_negative(probe.get(field) or 0, f"{path}.{field}")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    if kind == "readinessProbe":
        if grace is not None:
            text = "must not be set for readinessProbes"
            errors.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, text))
    elif (probe.get("successThreshold") or 0) != 1:
        errors.append(invalid(f"{path}.successThreshold", probe.get("successThreshold") or 0, "must be 1"))
    return errors


def check_lifecycle(lifecycle: JsonObject | None, grace: int | None, path: str) -> list[FieldError]:
    """Validate the hooks after a container's start and before its end."""
    errors: list[FieldError] = []
    for hook in ("postStart", "preStop"):
        if lifecycle and lifecycle.get(hook) is not None:
            errors += _check_handler(lifecycle[hook], grace, f"{path}.{hook}")
    return errors


def _check_handler(handler: JsonObject, grace: int | None, path: str) -> list[FieldError]:
    given = [kind for kind in _KINDS if handler.get(kind) is not None]
    if not given:
        return [missing_field(path, "must specify a handler type")]
    first, *others = given
    errors = _check_action(first, handler[first], grace, f"{path}.{first}")
    text = "may not specify more than 1 handler type"
    return errors + [forbidden_field(f"{path}.{kind}", text) for kind in others]


def _check_action(kind: str, action: JsonObject, grace: int | None, path: str) -> list[FieldError]:
    if kind == "exec":
        return [] if action.get("command") else [missing_field(f"{path}.command")]
    if kind == "sleep":
        seconds = action.get("seconds") or 0
        if grace is None or 0 <= seconds <= grace:
            return []
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        return [invalid(path, seconds, text)]
    errors = []
    if kind == "httpGet" and not action.get("path"):
        errors.append(missing_field(f"{path}.path"))
    errors += check_port(action.get("port"), f"{path}.port")
    if kind == "httpGet":
        scheme = action.get("scheme", "")
        if scheme not in _SCHEMES:
            errors.append(not_supported(f"{path}.scheme", scheme, _SCHEMES))
        for header in action.get("httpHeaders") or ():
            name = header.get("name", "")
            if not re.fullmatch("[-A-Za-z0-9]+", name):
                text = (
                    "a valid HTTP header must consist of alphanumeric characters or '-' "
                    "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
                )
                errors.append(invalid(f"{path}.httpHeaders", name, text))
        errors += _check_protocol(action, path)
    mode = action.get("mode")
    if kind == "grpc" and mode is not None and mode not in _GRPC_MODES:
        errors.append(not_supported(f"{path}.mode", mode, _GRPC_MODES))
    return errors


def _check_protocol(action: JsonObject, path: str) -> list[FieldError]:
    protocol = action.get("protocol")
    if protocol is None:
        return []
    if protocol not in _PROTOCOLS:
        return [not_supported(f"{path}.protocol", protocol, _PROTOCOLS)]
    if protocol == "HTTP2" and action.get("scheme") != "HTTP":
        return [invalid(f"{path}.protocol", protocol, "is only supported with HTTP (H2C)")]
    if protocol == "HTTP2" and action.get("host"):
        return [invalid(f"{path}.host", action["host"], 'must be empty when `protocol` is "HTTP2"')]
    return []
