"""Service accounts' tokens: what they say, and whether they hold (upstream's pkg/serviceaccount/claims.go, jwt.go)."""

from __future__ import annotations

import base64
import binascii
import functools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from dra_apiserver.errors import quote
from dra_apiserver.serviceaccount.keys import Keys
from dra_apiserver.user import UserInfo, service_account_groups

JsonObject = dict[str, Any]
Lookup = Callable[[str, str, str, str], JsonObject | None]

ISSUER = "https://kubernetes.default.svc"
_LEEWAY = 60
_HOUR = 3600
_EVERY_PODS, _YEAR = 3607, 365 * 24 * 3600
_EXTRA = "authentication.kubernetes.io/"
CREDENTIAL_ID = _EXTRA + "credential-id"
# The annotation of the audit event for a new token.
ISSUED_CREDENTIAL_ID = _EXTRA + "issued-credential-id"
# What a token may be bound to, and where it is.
_BOUND = (("pod", "pods"), ("secret", "secrets"), ("node", "nodes"))


class InvalidToken(Exception):
    """A token of ours that does not hold, or not for this; the message is upstream's."""


class UnknownSignature(InvalidToken):
    """A token of a known issuer that no key of this server has signed; the message is upstream's."""


class Identity(NamedTuple):
    """Who has a token, and for which of the audiences asked for it is."""

    user: UserInfo
    audiences: tuple[str, ...]


def credential_id(token: str) -> str:
    """Return the ID of a token that this server issued, as audit events and its user's extra fields have it."""
    return _shown_id(_unverified(token))


def _shown_id(claims: JsonObject) -> str:
    return f"JTI={claims['jti']}"


def _unverified(token: str) -> JsonObject:
    """Return the claims of a token without a check of its signature, or none if it is not a JSON Web Token."""
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
    issuer = _unverified(token).get("iss")
    return issuer if isinstance(issuer, str) else ""


def _reference(obj: JsonObject) -> JsonObject:
    meta = obj["metadata"]
    return {key: meta[key] for key in ("name", "uid") if meta.get(key)}


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """What tokens say; the names are those of kube-apiserver's flags.

    The first of ``issuers`` issues, and tokens of all are taken. ``audiences`` are those of this server; () means the
    issuers. ``longest`` bounds what may be asked for, in seconds; 0 means no bound.
    """

    issuers: tuple[str, ...] = (ISSUER,)
    audiences: tuple[str, ...] = ()
    jwks_uri: str = ""
    longest: int = 0
    extend: bool = True

    def __post_init__(self) -> None:
        """Raises: ValueError: the bound is out of range, or the URI no https one; in upstream's words."""
        if self.longest and not _HOUR <= self.longest <= 1 << 32:
            raise ValueError(
                "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"
            )
        if self.jwks_uri and not self.jwks_uri.startswith("https://"):
            raise ValueError(f"service-account-jwks-uri requires https scheme, parsed as: {self.jwks_uri}")


class Tokens:
    """Issues tokens and knows their holders. ``lookup`` finds an object by group, plural, namespace and name."""

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
        # A signature stays good; what it signs is looked at each time.
        self._signed = functools.lru_cache(maxsize=1024)(self._verified)

    def bounded(self, seconds: int) -> int:
        """How long a token holds that shall hold so many seconds."""
        return min(seconds, self._options.longest or seconds)

    def issue(
        self, account: JsonObject, seconds: int, audiences: list[str], bound: dict[str, JsonObject]
    ) -> str:
        """A token of the service account for so long; `bound` are the pod, node or secret that it goes with.

        What kubelets put into every pod holds for a year, as some who use it never read it again (upstream's
        `--service-account-extend-token-expiration`).
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
        """Who has the token; None where it is of no issuer that this server knows.

        Raises:
            UnknownSignature: no key of this server's has signed it.
            InvalidToken: it is for none of the audiences, it is over, or what it is bound to is gone.
        """
        if _issuer(token) not in self._options.issuers:
            return None
        claims = self._signed(token)
        named = _audiences(claims) or self.audiences
        meant = tuple(one for one in named if one in audiences)
        if not meant:
            raise InvalidToken(
                f"token audiences {_listed(named)} is invalid for the target audiences {_listed(audiences)}"
            )
        now = self._now().timestamp()
        own = claims.get("kubernetes.io") or {}
        # go-jose grants a minute either way.
        if now > claims.get("exp", now) + _LEEWAY:
            raise InvalidToken("service account token has expired")
        if now < claims.get("nbf", now) - _LEEWAY:
            raise InvalidToken("service account token is not valid yet")
        if not self._holds(own):
            raise InvalidToken("service account token has been invalidated")
        return Identity(_user(claims, own), meant)

    def _verified(self, token: str) -> JsonObject:
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


def _listed(audiences: Sequence[str]) -> str:
    """The audiences as Go's %q shows them."""
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
