"""Fully qualified CDI device names, ``vendor/class=device`` (pkg/parser of container-device-interface)."""

import re

_VENDOR = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")


def qualified_name(vendor: str, class_: str, device: str) -> str:
    """Return the CDI id of a device."""
    return f"{vendor}/{class_}={device}"


def parse_qualified_name(name: str) -> tuple[str, str, str]:
    """Split a CDI id into (vendor, class, device).

    Raises:
        ValueError: it is not fully qualified, or a part has characters that CDI forbids.
    """
    kind, equals, device = name.partition("=")
    vendor, slash, class_ = kind.partition("/")
    if not equals or not slash or not vendor or not class_ or not device:
        raise ValueError(f"unqualified device {name!r}, want vendor/class=device")
    problem = kind_problem(kind) or device_name_problem(device)
    if problem:
        raise ValueError(f"invalid device {name!r}: {problem}")
    return vendor, class_, device


def kind_problem(kind: str) -> str:
    """Return the problem with a spec's kind (``vendor/class``), or an empty string."""
    vendor, slash, class_ = kind.partition("/")
    if not slash:
        return f"invalid kind {kind!r}, want vendor/class"
    for what, text in (("vendor", vendor), ("class", class_)):
        if not _VENDOR.fullmatch(text):
            return f"invalid {what} {text!r}"
    return ""


def device_name_problem(device: str) -> str:
    """Return the problem with a device's own name, or an empty string."""
    return "" if _DEVICE.fullmatch(device) else f"invalid device name {device!r}"
