"""A storm: create and delete pods with devices while faults are injected, and then check the state of the cluster."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import httpx
import orjson
from dra_kube.cluster import Cluster
from dra_shared.api.resources import DEVICE_CLASSES
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.rest import Client
from dra_shared.errors import UserError

from dra_lab.faults.rest import Rest
from dra_lab.faults.script import Step
from dra_lab.faults.striking import Striker

NAMESPACE = "storm"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_TEMPLATES = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaimtemplates"
_COUNTS = (1, 2, 4)
_ATTEMPTS = 100
_PAUSE = 0.3
_REST_TIMEOUT = 120.0


class Storm:
    """Runs a script of :func:`dra_lab.faults.script.script`. ``report`` is called with a line for each step.

    ``refused`` counts the faults that were refused, because another fault of the API server was active, or
    because a node lacks the driver or device.
    """

    def __init__(
        self, cluster: Cluster, device_class: str, report: Callable[[str], None], rest: float = _REST_TIMEOUT
    ) -> None:
        self._cluster = cluster
        self._class = device_class
        self._report = report
        self._rest = rest
        self.refused = 0
        self._striker = Striker(cluster)

    async def run(self, steps: Sequence[Step]) -> list[str]:
        """Run all steps, and return the problems of the cluster once it should be at rest.

        No problems: the storm passed.

        Raises:
            UserError: the cluster does not run, or lacks the device class.
        """
        async with self._cluster.client("dralab-storm") as client:
            await self._check_class(client)
            await self._prepare(client)
            began = time.monotonic()
            work: list[asyncio.Task[None]] = []
            try:
                for step in steps:
                    await asyncio.sleep(max(0.0, began + step.at - time.monotonic()))
                    self._report(str(step))
                    work.append(asyncio.create_task(self._do(client, step)))
                await asyncio.gather(*work)
            finally:
                for task in work:
                    task.cancel()
                await self._calm()
            return await Rest(self._cluster).wait(self._rest)

    async def _check_class(self, client: Client) -> None:
        """Check that the device class exists. Without it no pod would run, and the storm would test nothing."""
        try:
            await client.get(DEVICE_CLASSES, self._class)
        except NotFound:
            raise UserError(f"there is no DeviceClass {self._class!r}", 2) from None

    async def _prepare(self, client: Client) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await _send(client, "POST", "/api/v1/namespaces", namespace)
        for count in _COUNTS:
            exactly = {"deviceClassName": self._class, "count": count}
            template = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": f"devices-{count}"},
                "spec": {"spec": {"devices": {"requests": [{"name": "it", "exactly": exactly}]}}},
            }
            await _send(client, "POST", _TEMPLATES, template)

    async def _do(self, client: Client, step: Step) -> None:
        match step.action:
            case "create":
                await _send(client, "POST", _PODS, _pod(step.arguments["pod"], step.arguments["devices"]))
            case "delete":
                await _send(client, "DELETE", f"{_PODS}/{step.arguments['pod']}", {"gracePeriodSeconds": 1})
            case _:
                try:
                    await self._striker.strike(step.action, step.arguments)
                except UserError as error:
                    self.refused += 1
                    self._report(f"           not done: {error}")

    async def _calm(self) -> None:
        for _ in range(_ATTEMPTS):
            try:
                await self._striker.clear()
                return
            except UserError:
                await asyncio.sleep(_PAUSE)


def _pod(name: str, devices: int) -> dict[str, object]:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "99999"]}
    claims = [{"name": "it", "resourceClaimTemplateName": f"devices-{devices}"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [{**container, "resources": {"claims": [{"name": "it"}]}}],
            "resourceClaims": claims,
            "terminationGracePeriodSeconds": 1,
        },
    }


async def _send(client: Client, method: str, path: str, body: Mapping[str, object]) -> None:
    """Send the request until the API server has accepted it.

    Raises:
        UserError: it is rejected, or the API server does not answer again.
    """
    last = ""
    for _ in range(_ATTEMPTS):
        try:
            response = await client.raw(method, path, content=orjson.dumps(body))
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            last = str(error)
        else:
            # 404 and 409: an earlier attempt has deleted or created the object, and its answer was lost.
            if response.status_code < 300 or response.status_code == (404 if method == "DELETE" else 409):
                return
            last = response.text
            if response.status_code < 500 and response.status_code != 429:
                break
        await asyncio.sleep(_PAUSE)
    raise UserError(f"{method} {path}: {last}")
