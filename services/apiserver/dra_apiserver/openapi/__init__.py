"""OpenAPI documents as JSON bytes, created on first use.

``OpenApi(registry)``: ``index()`` (/openapi/v3), ``v3(path)`` (/openapi/v3/<path>; None: 404), ``v2()``
(/openapi/v2).
"""

from dra_apiserver.openapi.documents import OpenApi

__all__ = ["OpenApi"]
