"""Send questions to the scheduler over its health port."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
from dra_shared.mediatypes import JSON
from fastapi import HTTPException

from dra_apiserver.config import Config
from dra_apiserver.front.insight import Ask

_TIMEOUT = 30.0
# Plans may search for as long as the request allows.
_LONG = 3700.0


def scheduler(config: Config) -> Ask:
    """Return a function that asks the scheduler at ``scheduler_url``. Without a URL, every request fails with 503."""

    async def ask(
        path: str, params: Mapping[str, int], body: dict[str, Any] | None = None, media_type: str = JSON
    ) -> Any:
        if not config.scheduler_url:
            raise HTTPException(503, "no scheduler is configured: set --scheduler-url")
        parts = path.split("/")
        if not {".", ".."}.isdisjoint(parts):
            raise HTTPException(404, f"there is no {path}")
        path = "/".join(quote(part, safe="") for part in parts)
        method, timeout = ("GET", _TIMEOUT) if body is None else ("POST", _LONG)
        try:
            async with httpx.AsyncClient(
                base_url=config.scheduler_url,
                headers=[*config.nodes.headers, (b"accept", media_type.encode())],
                timeout=timeout,
                verify=config.nodes.context() or False,
            ) as client:
                answer = await client.request(method, path, params=dict(params), json=body)
        except httpx.HTTPError as error:
            raise HTTPException(503, f"the scheduler does not answer: {error}") from error
        if answer.status_code != 200:
            raise HTTPException(answer.status_code, answer.text.strip())
        if media_type != JSON:
            return answer.text
        try:
            return answer.json()
        except ValueError as error:
            raise HTTPException(503, f"the scheduler's answer is not JSON: {error}") from error

    return ask
