"""The users of the server: by service account token, by token file, or by certificate.

Mirrors kube-apiserver's tokenfile and apiserver's pkg/authentication/request/x509.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dra_shared.clientcertificate import ClientCertificate

from dra_apiserver.errors import StatusError
from dra_apiserver.serviceaccount import Identity, Tokens
from dra_apiserver.serviceaccount.tokens import CREDENTIAL_ID
from dra_apiserver.user import ADMINISTRATOR, UserInfo

_AUTHENTICATED = "system:authenticated"
_COLUMNS = 3


def read_token_file(path: Path) -> dict[str, UserInfo]:
    """Read users by token, from lines of ``token,user,uid,"group1,group2"``.

    Raises:
        OSError: the file can't be read.
        ValueError: a line has too few columns, or the file is not text. The message does not show the line.
    """
    found: dict[str, UserInfo] = {}
    for row in csv.reader(io.StringIO(path.read_text())):
        if not row:
            continue
        if len(row) < _COLUMNS:
            raise ValueError(
                f"token file '{path}' must have at least 3 columns (token, user name, user uid), found {len(row)}"
            )
        token, name, uid, *more = row
        groups = tuple(more[0].split(",")) if more else ()
        if token:
            found[token] = UserInfo(name, tuple(dict.fromkeys((*groups, _AUTHENTICATED))), uid=uid)
    return found


class Credentials:
    """The known tokens and certificates.

    ``required``: requests need credentials. ``checked``: an unknown token is rejected instead of ignored.
    ``anonymous`` is the user of requests without credentials. ``now`` returns the time for certificates, in
    seconds since the epoch.
    """

    def __init__(
        self,
        tokens: Tokens,
        known: Mapping[str, UserInfo],
        *,
        required: bool,
        checked: bool,
        anonymous: UserInfo = ADMINISTRATOR,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.anonymous = anonymous
        self._now = now
        self._tokens = tokens
        #: The audiences of the tokens that this server accepts.
        self.audiences = tokens.audiences
        self._known = known
        self.required = required
        self.checked = checked or required

    def certificate_user(self, certificate: ClientCertificate) -> UserInfo | None:
        """Return the user that a certificate names; None if it names none.

        Raises:
            StatusError: 401, the certificate has expired on an open connection, or has no usable UID.
        """
        if not certificate.name:
            return None
        if self._now() > certificate.until or len(certificate.uids) > 1 or "" in certificate.uids:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        return UserInfo(
            certificate.name,
            (*certificate.groups, *(() if _AUTHENTICATED in certificate.groups else (_AUTHENTICATED,))),
            {CREDENTIAL_ID: (f"X509SHA256={certificate.fingerprint}",)},
            uid=next(iter(certificate.uids), ""),
        )

    def holder(self, token: str, audiences: Sequence[str] = ()) -> Identity | None:
        """Return the user of the token and its matching audiences; None if it is unknown.

        Without ``audiences``, those of this server are used.

        Raises:
            InvalidToken: a service account's token is no longer valid, or is not intended for any of the
            audiences.
        """
        audiences = audiences or self.audiences
        user = self._known.get(token)
        if user is None:
            return self._tokens.holder(token, audiences)
        # Tokens of the file have no audience, so they are valid for this server's audiences.
        meant = tuple(one for one in self.audiences if one in audiences)
        return Identity(user, meant) if meant else None
