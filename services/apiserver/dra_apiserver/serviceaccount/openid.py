"""Documents with which clients can verify tokens by themselves (upstream's pkg/serviceaccount/openidmetadata.go)."""

from __future__ import annotations

from typing import Any

import orjson

from dra_apiserver.serviceaccount.tokens import Tokens

CONFIGURATION = "/.well-known/openid-configuration"
KEYSET = "/openid/v1/jwks"


def configuration(tokens: Tokens, origin: str) -> bytes:
    """Return the provider's configuration. ``origin`` is the URL of this server: ``https://host:port``."""
    document: dict[str, Any] = {
        "issuer": tokens.issuer,
        "jwks_uri": tokens.jwks_uri or f"{origin}{KEYSET}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": sorted({key.algorithm for key in tokens.keys.public_keys}),
    }
    return orjson.dumps(document)


def keyset(tokens: Tokens) -> bytes:
    """Return the public keys, as a JSON Web Key Set."""
    return orjson.dumps({"keys": [key.jwk() for key in tokens.keys.public_keys]})
