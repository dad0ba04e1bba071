"""Structured logs: one JSON object a line on standard error."""

import sys
from typing import Any

import orjson
import structlog

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(service: str, level: str = "info") -> None:
    """Set up logging for this process; ``service`` is named in every line.

    Raises:
        KeyError: ``level`` is none of ``debug``, ``info``, ``warning`` and ``error``.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_dump),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.BytesLoggerFactory(file=sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)


def logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """The logger of a module; ``name`` is shown as ``module``."""
    bound: structlog.typing.FilteringBoundLogger = structlog.get_logger(module=name)
    return bound


def _dump(value: Any, **_: Any) -> bytes:
    return orjson.dumps(value, default=str)
