"""Test the fields that admission sets, through HTTP."""

from typing import Any

import httpx

PODS = "/api/v1/namespaces/default/pods"


async def test_a_pod_update_without_the_default_tolerations_keeps_them(client: httpx.AsyncClient) -> None:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]},
    }
    made = (await client.post(PODS, json=pod)).json()
    assert len(made["spec"]["tolerations"]) == 2
    # A user may copy the pod that the server showed, and leave out the tolerations.
    changed = {**made, "spec": {key: value for key, value in made["spec"].items() if key != "tolerations"}}
    changed["spec"]["containers"][0]["image"] = "i:2"
    answer = await client.put(f"{PODS}/p", json=changed)
    assert answer.status_code == 200, answer.text
    assert answer.json()["spec"]["tolerations"] == made["spec"]["tolerations"]
