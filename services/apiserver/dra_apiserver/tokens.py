"""Service accounts' tokens: JSON Web Tokens that this server signs, and knows again (pkg/serviceaccount)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from dra_shared.files import private_folder

from dra_apiserver.errors import quote
from dra_apiserver.user import UserInfo, service_account_groups

JsonObject = dict[str, Any]
Lookup = Callable[[str, str, str, str], JsonObject | None]

ISSUER = "https://kubernetes.default.svc"
_HEADER = {"alg": "HS256", "typ": "JWT"}
_KEY_LENGTH = 32
_LEEWAY = 60
_EVERY_PODS, _YEAR = 3607, 365 * 24 * 3600
_EXTRA = "authentication.kubernetes.io/"
CREDENTIAL_ID = _EXTRA + "credential-id"
# What a token may be bound to, and where it is.
_BOUND = (("pod", "pods"), ("secret", "secrets"), ("node", "nodes"))


class InvalidToken(Exception):
    """A token of ours that does not hold, or not for this; the message is upstream's."""


class Identity(NamedTuple):
    """Who has a token, and for which of the audiences asked for it is."""

    user: UserInfo
    audiences: tuple[str, ...]


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _reference(obj: JsonObject) -> JsonObject:
    meta = obj["metadata"]
    return {key: meta[key] for key in ("name", "uid") if meta.get(key)}


class Tokens:
    """Signs with a key that is made when it is first needed, and kept in the server's directory."""

    def __init__(self, path: Path, lookup: Lookup, now: Callable[[], datetime]) -> None:
        self._path = path
        self._lookup = lookup
        self._now = now
        self._kept: bytes | None = None

    def _key(self) -> bytes:
        if self._kept is None:
            kept = self._path.read_bytes() if self._path.exists() else b""
            # A key that a full disk cut short must sign nothing.
            self._kept = kept if len(kept) == _KEY_LENGTH else self._make_key()
        return self._kept

    def _make_key(self) -> bytes:
        private_folder(self._path.parent)
        made = secrets.token_bytes(_KEY_LENGTH)
        part = self._path.with_name(self._path.name + ".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(made)
        part.replace(self._path)
        return made

    def _signature(self, signed: str) -> str:
        return _encoded(hmac.digest(self._key(), signed.encode(), hashlib.sha256))

    def issue(
        self, account: JsonObject, seconds: int, audiences: list[str], bound: dict[str, JsonObject]
    ) -> str:
        """A token of the service account for so long; `bound` are the pod, node or secret that it goes with.

        What kubelets put into every pod holds for a year, as some who use it never read it again (upstream's
        `--service-account-extend-token-expiration`).
        """
        meta, now = account["metadata"], int(self._now().timestamp())
        warned: JsonObject = {}
        if "pod" in bound and seconds == _EVERY_PODS and audiences == [ISSUER]:
            warned = {"warnafter": now + seconds}
            seconds = _YEAR
        claims = {
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "iss": ISSUER,
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
        signed = f"{_encoded(orjson.dumps(_HEADER))}.{_encoded(orjson.dumps(claims))}"
        return f"{signed}.{self._signature(signed)}"

    def holder(self, token: str, audiences: Sequence[str]) -> Identity | None:
        """Who has the token; None where it is not one of ours.

        Raises:
            InvalidToken: it is for none of the audiences, it is over, or what it is bound to is gone.
        """
        signed, dot, signature = token.rpartition(".")
        if not dot or not hmac.compare_digest(signature.encode(), self._signature(signed).encode()):
            return None
        try:
            claims = orjson.loads(_decoded(signed.partition(".")[2]))
        except (binascii.Error, ValueError):
            return None
        meant = tuple(one for one in claims["aud"] if one in audiences)
        if not meant:
            raise InvalidToken(
                f"token audiences {_listed(claims['aud'])} is invalid for the target audiences {_listed(audiences)}"
            )
        now = self._now().timestamp()
        own = claims["kubernetes.io"]
        # go-jose grants a minute either way.
        if now > claims["exp"] + _LEEWAY:
            raise InvalidToken("service account token has expired")
        if now < claims["nbf"] - _LEEWAY:
            raise InvalidToken("service account token is not valid yet")
        if not self._holds(own):
            raise InvalidToken("service account token has been invalidated")
        return Identity(_user(claims, own), meant)

    def _holds(self, own: JsonObject) -> bool:
        namespace = own["namespace"]
        if not self._is_there("serviceaccounts", namespace, own["serviceaccount"]):
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


def _listed(audiences: Sequence[str]) -> str:
    """The audiences as Go's %q shows them."""
    return f"[{' '.join(map(quote, audiences))}]"


def _user(claims: JsonObject, own: JsonObject) -> UserInfo:
    extra = {CREDENTIAL_ID: (f"JTI={claims['jti']}",)}
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
