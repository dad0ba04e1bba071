"""Reading and writing of the arguments that ctypes callers pass to a C function."""

import ctypes
from typing import Any


def integer(value: Any) -> int:
    """Read a number passed directly or as a ctypes scalar."""
    return int(value.value) if hasattr(value, "value") else int(value)


def text(value: Any) -> str:
    """Read a string passed as bytes, text or a char pointer."""
    raw = value.value if hasattr(value, "value") else value
    return raw.decode() if isinstance(raw, bytes) else str(raw)


def store(out: Any, value: int) -> None:
    """Write a scalar through a reference."""
    target = out._obj if hasattr(out, "_obj") else out.contents
    target.value = value


def fetch(out: Any) -> int:
    """Read a scalar through a reference."""
    return int((out._obj if hasattr(out, "_obj") else out.contents).value)


def point(out: Any, address: int) -> None:
    """Make an opaque handle point to ``address``."""
    ctypes.cast(ctypes.pointer(out._obj), ctypes.POINTER(ctypes.c_void_p))[0] = address


def view(reference: Any, kind: Any) -> Any:
    """Return an indexable view of an array or struct passed directly, by reference or by pointer."""
    thing = reference._obj if hasattr(reference, "_obj") else reference
    return ctypes.cast(
        ctypes.pointer(thing) if isinstance(thing, ctypes.Structure) else thing, ctypes.POINTER(kind)
    )
