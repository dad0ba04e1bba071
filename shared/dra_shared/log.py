"""Structured logs: one JSON object a line on standard error.

Logging never raises. Lines that cannot be written, for example on a full disk, are dropped and counted.
"""

import logging
import os
import threading
from typing import Any

import orjson
import structlog

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(service: str, level: str = "info", descriptor: int = 2, *, final: bool = True) -> None:
    """Set up logging for this process to a file descriptor. Every line has the field ``service``.

    Logs of libraries are written in the same form. In a process of the user, logging is not ``final``:
    handlers that the user installs later get all lines.

    Raises:
        KeyError: ``level`` is not one of ``debug``, ``info``, ``warning`` and ``error``.
    """
    lines = _Lines(descriptor)
    lowest = LEVELS[level]
    structlog.configure(
        processors=[
            *([] if final else [_at_least(lowest)]),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_dump),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(lowest if final else 0),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=final,
    )
    structlog.contextvars.bind_contextvars(service=service)
    if final:
        logging.lastResort = _Libraries(logging.WARNING)


def _at_least(level: int) -> structlog.typing.Processor:
    def drop(_: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        if LEVELS.get(method, level) < level:
            raise structlog.DropEvent
        return event

    return drop


def logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of a module. ``name`` is the field ``module``."""
    bound: structlog.typing.FilteringBoundLogger = structlog.get_logger(module=name)
    return bound


class _Libraries(logging.Handler):
    """Handles logs of libraries that have no other handler. Python would print these unformatted."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            level = min(record.levelno, LEVELS["error"])
            logger(record.name).log(level, record.getMessage(), exc_info=record.exc_info)
        except Exception:
            self.handleError(record)


class _Lines:
    """Writes lines unbuffered, so that a failed line is lost and does not block later ones."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._lost = 0
        self._torn = False

    def msg(self, line: bytes) -> None:
        with self._lock:
            if self._lost and self._write(
                _dump({"event": "lines of this log are lost", "lines": self._lost})
            ):
                self._lost = 0
            if not self._write(line):
                self._lost += 1

    debug = info = warning = error = exception = critical = msg

    def _write(self, line: bytes) -> bool:
        left = memoryview(b"\n" * self._torn + line + b"\n")
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
                self._torn = bool(left)
        except OSError:
            return False
        return True


def _dump(value: Any, **_: Any) -> bytes:
    try:
        return orjson.dumps(value, default=_text)
    except (TypeError, RecursionError):
        # orjson rejects surrogates, integers beyond 64 bits, and keys that are not strings.
        return orjson.dumps({_text(key): _text(entry) for key, entry in value.items()})


def _text(value: Any) -> str:
    try:
        return str(value).encode(errors="backslashreplace").decode()
    except Exception as error:
        return f"<{type(value).__name__}: {type(error).__name__}>"
