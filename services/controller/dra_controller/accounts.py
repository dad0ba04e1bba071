"""A service account for each controller, as kube-controller-manager's --use-service-account-credentials does.

The manager itself only lists and watches, creates the accounts in kube-system and asks for their tokens.
Each controller writes as its account, which has the role of the controller (client-go's
DynamicControllerClientBuilder).
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import msgspec
from dra_shared.api.core import ServiceAccount
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resources import SERVICE_ACCOUNTS
from dra_shared.client.errors import AlreadyExists, ApiError
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.log import logger

_NAMESPACE = "kube-system"
_TOKEN_SECONDS = 3600
# The interval in seconds at which deleted accounts are created again and tokens are renewed.
_RENEW_SECONDS = 60.0
_RETRY_SECONDS = 1.0
# The controllers whose service account has another name than the controller.
_NAMES = {
    "daemonset-controller": "daemon-set-controller",
    "garbage-collector-controller": "generic-garbage-collector",
    "node-lifecycle-controller": "node-controller",
    "pod-garbage-collector-controller": "pod-garbage-collector",
    "replicationcontroller-controller": "replication-controller",
    "resourceclaim-controller": "resource-claim-controller",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "serviceaccount-controller": "service-account-controller",
    "taint-eviction-controller": "node-controller",
}

_log = logger(__name__)


def account_of(controller: str) -> str:
    """Return the name of the controller's service account."""
    return _NAMES.get(controller, controller)


class Accounts:
    """The clients of the controllers.

    ``manager`` is the client as which the controller manager itself authenticates.
    """

    def __init__(self, manager: Client, clock: Clock, controllers: Sequence[str]) -> None:
        self._manager = manager
        self._clock = clock
        self._clients = {account_of(name): manager.with_token("") for name in controllers}

    def client(self, controller: str) -> Client:
        """Return the client that acts as the controller. The client is usable once :meth:`get_tokens` has returned."""
        return self._clients[account_of(controller)]

    async def get_tokens(self) -> None:
        """Get a token for every account. Retries until the API server gives them."""
        while True:
            try:
                await asyncio.gather(*map(self._renew, self._clients))
                return
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                _log.info("no tokens for the controllers, trying again", error=str(error))
            await self._clock.sleep(_RETRY_SECONDS)

    async def run(self) -> None:
        """Renew the tokens until cancelled."""
        while True:
            await self._clock.sleep(_RENEW_SECONDS)
            await self.get_tokens()

    async def _renew(self, account: str) -> None:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": _TOKEN_SECONDS},
        }
        try:
            answer = await self._ask(account, body)
        except ApiError as error:
            if error.code != 404:
                raise
            made = ServiceAccount(metadata=ObjectMeta(name=account, namespace=_NAMESPACE))
            try:
                await self._manager.create(SERVICE_ACCOUNTS, made)
            except AlreadyExists:
                _log.debug("another replica made the account", account=account)
            answer = await self._ask(account, body)
        self._clients[account].set_token(msgspec.json.decode(answer)["status"]["token"])

    async def _ask(self, account: str, body: Any) -> bytes:
        return await self._manager.create_subresource(SERVICE_ACCOUNTS, account, "token", body, _NAMESPACE)
