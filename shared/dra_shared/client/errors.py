"""Errors of the API server, one exception for each reason."""

import msgspec

from dra_shared.api.meta import Status

_decoder = msgspec.json.Decoder(Status)


class ApiError(Exception):
    """The API server rejected a request. ``status`` says why."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message or status.reason or f"HTTP {status.code}")
        self.status = status

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return self.status.code

    @property
    def reason(self) -> str:
        """The machine-readable reason, such as ``NotFound``."""
        return self.status.reason

    def has_cause(self, reason: str) -> bool:
        """True if the Status names that cause, such as ``NamespaceTerminating``."""
        details = self.status.details
        return details is not None and any(cause.reason == reason for cause in details.causes)


class BadRequest(ApiError):
    """400: the request itself is malformed."""


class Unauthorized(ApiError):
    """401: the server does not know the user."""


class Forbidden(ApiError):
    """403: the user is not allowed to do this."""


class NotFound(ApiError):
    """404: the object or the resource does not exist."""


class AlreadyExists(ApiError):
    """409: an object of that name exists already."""


class Conflict(ApiError):
    """409: the object changed since it was read, or has another uid."""


class Expired(ApiError):
    """410: the resource version is older than the server's history."""


class Invalid(ApiError):
    """422: the object is invalid. ``status.details.causes`` has every field."""


class TooManyRequests(ApiError):
    """429: try again after ``status.details.retryAfterSeconds``."""


class ServerTimeout(ApiError):
    """504: the server did not answer in time, or does not know the resource version yet."""


_BY_REASON: dict[str, type[ApiError]] = {
    "BadRequest": BadRequest,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Expired,
    "Gone": Expired,
    "Invalid": Invalid,
    "TooManyRequests": TooManyRequests,
    "Timeout": ServerTimeout,
    "ServerTimeout": ServerTimeout,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
    504: ServerTimeout,
}


def from_status(status: Status) -> ApiError:
    """Return the exception for ``status``."""
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code, ApiError)
    return kind(status)


def from_response(code: int, body: bytes) -> ApiError:
    """Return the exception for an HTTP error response with any body."""
    try:
        status = _decoder.decode(body)
    except msgspec.DecodeError:
        status = Status(status="Failure", message=body.decode(errors="replace").strip())
    if not status.code:
        status = msgspec.structs.replace(status, code=code)
    return from_status(status)
