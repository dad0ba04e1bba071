"""Helpers for tests of the console: the cluster's API, and the page when everything is loaded."""

import itertools
import re
from typing import Any

import httpx
from playwright.sync_api import Page, expect

from tests.support.waiting import blocking_until

DRA = "/apis/resource.k8s.io/v1"
_numbers = itertools.count()


class ConsoleServer:
    """The cluster's API, for changes while the page is open."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=30)
        self.namespace = f"seen-{next(_numbers)}"
        self.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    def create(self, path: str, body: dict[str, Any]) -> None:
        answer = self._client.post(path, json=body)
        assert answer.status_code == 201, answer.text

    def claim(self, name: str, expression: str) -> None:
        """Create a claim for two GPUs, and a pod of the same name that uses it."""
        namespace = self.namespace
        exactly = {
            "deviceClassName": "gpu.nvidia.com",
            "count": 2,
            "selectors": [{"cel": {"expression": expression}}],
        }
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        self.create(
            f"{DRA}/namespaces/{namespace}/resourceclaims", {"metadata": {"name": name}, "spec": spec}
        )
        container = {
            "name": "main",
            "image": "busybox",
            "command": ["sh", "-c", "echo at work; sleep 3600"],
            "resources": {"claims": [{"name": "gpu"}]},
        }
        pod = {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            "terminationGracePeriodSeconds": 0,
        }
        self.create(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": name}, "spec": pod})

    def get(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get(path).json()
        return found

    def pods(self) -> list[str]:
        items = self.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return [item["metadata"]["name"] for item in items]

    def delete(self, path: str) -> None:
        assert self._client.delete(path).status_code == 200

    def close(self) -> None:
        """Remove everything, so that the next test finds its devices free."""
        try:
            self.delete(f"/api/v1/namespaces/{self.namespace}")
            blocking_until(lambda: self._client.get(f"{DRA}/resourceclaims").json()["items"] == [])
        finally:
            self._client.close()


def open_console(page: Page, server: ConsoleServer, view: str = "#/fleet") -> None:
    """Open a view, and wait until the page has everything."""
    page.goto(f"{server.url}/console/{view}")
    # Everything is loaded: the header counts what there is.
    shown = page.get_by_role("banner").get_by_role("status")
    expect(shown).to_have_text(re.compile(r"\d+ nodes?, \d+ devices"))
