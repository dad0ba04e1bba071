"""Service accounts' tokens: keys, issuing, verification and OpenID discovery (upstream's pkg/serviceaccount)."""

from dra_apiserver.serviceaccount.keys import KeyOptions, Keys
from dra_apiserver.serviceaccount.tokens import Identity, InvalidToken, TokenOptions, Tokens, UnknownSignature

__all__ = ["Identity", "InvalidToken", "KeyOptions", "Keys", "TokenOptions", "Tokens", "UnknownSignature"]
