"""Wait for an API server that serves classic DRA, and translate then.

Upstream has no such controller: there the controller of a driver allocated classic claims
(`k8s.io/dynamic-resource-allocation/controller` of Kubernetes 1.26 to 1.31), and kube-scheduler negotiated
with it by PodSchedulingContexts. Here the current scheduler allocates the claims that this controller
creates.
"""

import httpx
from dra_shared.client.errors import ApiError
from dra_shared.log import logger

from dra_controller.framework import QueueController

_PATH = "/apis/resource.k8s.io/v1alpha3"
_KIND = "resourceclasses"
_POLL_SECONDS = 30.0
_RETRY_SECONDS = 1.0

_log = logger(__name__)


class ClassicDRAController(QueueController):
    """The translating controller.

    While the API server does not serve classic DRA, the controller only checks for it from time to time.
    """

    name = "classic-dra-controller"
    queue_name = "classic_dra"
    workers = 1

    async def run(self) -> None:
        """Wait until the API server serves classic DRA, then translate objects until cancelled."""
        await self._wait_until_served()
        from dra_controller.classicdra.translator import Translator

        _log.info("translating classic DRA")
        await Translator(self._context, self.queue).run()

    async def _wait_until_served(self) -> None:
        while True:
            delay = _POLL_SECONDS
            try:
                response = await self._client.raw("GET", _PATH)
            except (ApiError, httpx.HTTPError, OSError):
                delay = _RETRY_SECONDS
            else:
                resources = response.json().get("resources", ()) if response.status_code == 200 else ()
                if any(one["name"] == _KIND for one in resources):
                    return
            await self._clock.sleep(delay)

    async def reconcile(self, key: str) -> None:
        """No-op: the translator reconciles the keys."""
        raise NotImplementedError
