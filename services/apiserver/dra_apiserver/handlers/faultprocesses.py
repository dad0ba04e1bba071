"""Faults of the services' processes, executed by the supervisor that starts and stops them."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
from dra_shared.faults.cases import Entry
from dra_shared.faults.places import PATH

from dra_apiserver.config import Config
from dra_apiserver.errors import StatusError, bad_request, server_error

_TIMEOUT = 30.0
_NONE = "it affects a service's process, but no supervisor is known: --supervisor-url names it, as `dralab up` does"


class Supervisor:
    """The supervisor at ``supervisor_url``. Without a URL, processes have no faults."""

    def __init__(self, config: Config) -> None:
        self._url = config.supervisor_url
        self._file = config.supervisor_token_file
        self._numbers = itertools.count(1)

    async def number(self) -> int:
        """Return a number for the next fault. It comes from the supervisor, if there is one."""
        if not self._url:
            return next(self._numbers)
        number: int = (await self._ask("POST", "/numbers"))["number"]
        return number

    async def prepare(self, body: bytes) -> Entry:
        """Let the supervisor check a fault, and record the cluster's state before the fault.

        Raises:
            StatusError: 400, there is no such process, or no supervisor; 500, the supervisor does not
                respond.
        """
        if not self._url:
            raise bad_request(_NONE)
        return msgspec.convert(await self._ask("POST", "?held=true", body), Entry)

    async def begin(self, number: int) -> None:
        """Begin a prepared fault, unless it was ended meanwhile.

        Raises:
            StatusError: the supervisor does not respond.
        """
        try:
            await self._ask("POST", f"/{number}")
        except StatusError as error:
            if error.code != 404:
                raise

    async def list_active(self) -> list[Entry]:
        """Return its active faults."""
        if not self._url:
            return []
        return msgspec.convert((await self._ask("GET"))["items"], list[Entry])

    async def get(self, number: int) -> Entry | None:
        """Return one of its faults; None if it is unknown."""
        if not self._url:
            return None
        try:
            return msgspec.convert(await self._ask("GET", f"/{number}"), Entry)
        except StatusError as error:
            if error.code != 404:
                raise
            return None

    async def end(self, number: int) -> Entry | None:
        """End one of its faults, and return it; None if it is unknown.

        Raises:
            StatusError: the supervisor does not respond.
        """
        if await self.get(number) is None:
            return None
        return msgspec.convert(await self._ask("DELETE", f"/{number}"), Entry)

    async def clear(self) -> None:
        """End all of its faults.

        Raises:
            StatusError: the supervisor does not respond.
        """
        if self._url:
            await self._ask("DELETE")

    async def _ask(self, method: str, path: str = "", body: bytes = b"") -> Any:
        import httpx

        url = f"{self._url}{PATH}{path}"
        headers = {} if self._file is None else {"authorization": f"Bearer {self._file.read_text().strip()}"}
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False) as client:
                answer = await client.request(method, url, content=body, headers=headers)
        except httpx.HTTPError as error:
            raise server_error(f'{method} "{url}": {error or type(error).__name__}') from None
        if answer.status_code == 400:
            raise bad_request(str(answer.json()["message"]))
        if answer.status_code == 404:
            raise StatusError(404, "NotFound", str(answer.json()["message"]))
        if answer.status_code >= 300:
            raise server_error(f'{method} "{url}": {answer.status_code} {answer.text}')
        return answer.json()
