"""One TLS context for all HTTP clients of the tests that verify servers with public authorities."""

import functools
import ssl
from typing import Any

import httpx
import pytest


def share_default_context(patch: pytest.MonkeyPatch) -> None:
    """Create the context of httpx's default arguments once, until the patch is undone."""
    default = functools.cache(httpx.create_ssl_context)

    def create_or_share(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        if verify is True and cert is None:
            return default(trust_env=trust_env)
        return httpx.create_ssl_context(verify=verify, cert=cert, trust_env=trust_env)

    patch.setattr("httpx._transports.default.create_ssl_context", create_or_share)
