"""Service accounts' tokens: issue and verify them (upstream's pkg/serviceaccount/claims.go, jwt.go)."""

from __future__ import annotations

import base64
import binascii
import functools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import orjson
from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import quote
from dra_apiserver.serviceaccount.keys import Keys
from dra_apiserver.user import UserInfo, service_account_groups

Lookup = Callable[[str, str, str, str], JsonObject | None]

ISSUER = "https://kubernetes.default.svc"
_LEEWAY = 60
_HOUR = 3600
_EVERY_PODS, _YEAR = 3607, 365 * 24 * 3600
_EXTRA = "authentication.kubernetes.io/"
CREDENTIAL_ID = _EXTRA + "credential-id"
# The annotation of the audit event for a new token.
ISSUED_CREDENTIAL_ID = _EXTRA + "issued-credential-id"
# The kinds that a token may be bound to, with their resources.
_BOUND = (("pod", "pods"), ("secret", "secrets"), ("node", "nodes"))


class InvalidToken(Exception):
    """A token of this server that is invalid, or not valid for the request. The message is upstream's."""


class UnknownSignature(InvalidToken):
    """A token of a known issuer that none of this server's keys has signed. The message is upstream's."""


class Identity(NamedTuple):
    """The user of a token, and those of the requested audiences that it is valid for."""

    user: UserInfo
    audiences: tuple[str, ...]


def credential_id(token: str) -> str:
    """Return the ID of a token that this server issued, for audit events and its user's extra fields."""
    return _shown_id(_unverified_claims(token))


def _shown_id(claims: JsonObject) -> str:
    return f"JTI={claims['jti']}"


def _unverified_claims(token: str) -> JsonObject:
    """Return the claims of a token without verifying it; none if it is not a JSON Web Token."""
    parts = token.split(".")
    if len(parts) != 3 or token.lstrip().startswith("{"):
        return {}
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _issuer(token: str) -> str:
    """Return the issuer that the token states, unverified."""
    issuer = _unverified_claims(token).get("iss")
    return issuer if isinstance(issuer, str) else ""


def _reference(obj: JsonObject) -> JsonObject:
    meta = obj["metadata"]
    return {key: meta[key] for key in ("name", "uid") if meta.get(key)}


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """Settings of tokens, with the names of kube-apiserver's flags.

    New tokens have the first of the ``issuers``, and tokens of all ``issuers`` are accepted. ``audiences`` are
    those of this server; () means the issuers. ``longest`` limits the requested duration, in seconds; 0 means
    no limit.
    """

    issuers: tuple[str, ...] = (ISSUER,)
    audiences: tuple[str, ...] = ()
    jwks_uri: str = ""
    longest: int = 0
    extend: bool = True

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: the limit is out of range, or the URI is not https. The message is upstream's.
        """
        if self.longest and not _HOUR <= self.longest <= 1 << 32:
            raise ValueError(
                "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"
            )
        if self.jwks_uri and not self.jwks_uri.startswith("https://"):
            raise ValueError(f"service-account-jwks-uri requires https scheme, parsed as: {self.jwks_uri}")


class Tokens:
    """Issues tokens and verifies them. ``lookup`` finds an object by group, plural, namespace and name."""

    def __init__(
        self, keys: Keys, options: TokenOptions, lookup: Lookup, now: Callable[[], datetime]
    ) -> None:
        self.keys = keys
        self.issuer = options.issuers[0]
        self.audiences = options.audiences or options.issuers
        self.jwks_uri = options.jwks_uri
        self._options = options
        self._lookup = lookup
        self._now = now
        # Cache of verified signatures, which stay valid. The token's claims are checked each time.
        self._signed = functools.lru_cache(maxsize=1024)(self._verify)

    def limit_duration(self, seconds: int) -> int:
        """Return the duration of a token for which ``seconds`` are requested."""
        return min(seconds, self._options.longest or seconds)

    def issue(
        self, account: JsonObject, seconds: int, audiences: list[str], bound: dict[str, JsonObject]
    ) -> str:
        """Issue a token of the service account. `bound` are the pod, node or secret that it is bound to.

        Tokens that kubelets mount into every pod are valid for a year, because some clients never reload them
        (upstream's `--service-account-extend-token-expiration`).
        """
        meta, now = account["metadata"], int(self._now().timestamp())
        warned: JsonObject = {}
        if (
            self._options.extend
            and "pod" in bound
            and seconds == _EVERY_PODS
            and {*audiences} <= {*self.audiences}
        ):
            warned = {"warnafter": now + seconds}
            seconds = _YEAR
        claims = {
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {
                "namespace": meta["namespace"],
                **{kind: _reference(obj) for kind, obj in bound.items()},
                "serviceaccount": _reference(account),
                **warned,
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{meta['namespace']}:{meta['name']}",
        }
        return self.keys.sign(orjson.dumps(claims))

    def holder(self, token: str, audiences: Sequence[str]) -> Identity | None:
        """Return the user of the token; None if its issuer is unknown to this server.

        Raises:
            UnknownSignature: none of this server's keys has signed it.
            InvalidToken: it is for none of the audiences, it has expired, or an object that it is bound to
                was deleted.
        """
        if _issuer(token) not in self._options.issuers:
            return None
        claims = self._signed(token)
        named = _audiences(claims) or self.audiences
        meant = tuple(one for one in named if one in audiences)
        if not meant:
            raise InvalidToken(
                f"token audiences {_format_audiences(named)} is invalid for the target audiences "
                f"{_format_audiences(audiences)}"
            )
        now = self._now().timestamp()
        own = claims.get("kubernetes.io") or {}
        # go-jose allows a minute of clock skew.
        if now > claims.get("exp", now) + _LEEWAY:
            raise InvalidToken("service account token has expired")
        if now < claims.get("nbf", now) - _LEEWAY:
            raise InvalidToken("service account token is not valid yet")
        if not self._holds(own):
            raise InvalidToken("service account token has been invalidated")
        return Identity(_user(claims, own), meant)

    def _verify(self, token: str) -> JsonObject:
        from jwt import InvalidTokenError
        from jwt.api_jws import PyJWS

        try:
            header = PyJWS().get_unverified_header(token)
            key = self.keys.by_id.get(header.get("kid", ""))
            if key is None:
                raise UnknownSignature("invalid signature, no keys found")
            payload = PyJWS().decode(token, key.key, [key.algorithm])
        except InvalidTokenError:
            raise UnknownSignature("go-jose/go-jose: error in cryptographic primitive") from None
        claims: JsonObject = orjson.loads(payload)
        return claims

    def _holds(self, own: JsonObject) -> bool:
        namespace, account = own.get("namespace"), own.get("serviceaccount")
        if not namespace or not account or not self._is_there("serviceaccounts", namespace, account):
            return False
        for kind, plural in _BOUND:
            # A pod's node is named, and need not exist.
            if kind in own and not (kind == "node" and "pod" in own):
                within = "" if kind == "node" else namespace
                return self._is_there(plural, within, own[kind])
        return True

    def _is_there(self, plural: str, namespace: str, reference: JsonObject) -> bool:
        found = self._lookup("", plural, namespace, reference["name"])
        return found is not None and found["metadata"]["uid"] == reference["uid"]


def _audiences(claims: JsonObject) -> Sequence[str]:
    found = claims.get("aud") or ()
    return (found,) if isinstance(found, str) else found


def _format_audiences(audiences: Sequence[str]) -> str:
    """Format the audiences like Go's %q."""
    return f"[{' '.join(map(quote, audiences))}]"


def _user(claims: JsonObject, own: JsonObject) -> UserInfo:
    extra = {CREDENTIAL_ID: (_shown_id(claims),)}
    for kind in ("node", "pod"):
        reference = own.get(kind) or {}
        if "name" in reference:
            extra[f"{_EXTRA}{kind}-name"] = (reference["name"],)
            extra[f"{_EXTRA}{kind}-uid"] = (reference.get("uid", ""),)
    groups = (*service_account_groups(own["namespace"]), "system:authenticated")
    return UserInfo(
        claims["sub"],
        groups,
        extra,
        uid=own["serviceaccount"]["uid"],
    )
