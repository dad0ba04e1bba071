"""Test certificate signing requests through HTTP, as ``kubectl certificate`` uses them."""

import base64
from typing import Any

import httpx

from tests.support.cases import each_case

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PEM = b"-----BEGIN CERTIFICATE REQUEST-----\nMIIB\n-----END CERTIFICATE REQUEST-----\n"


def request(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "r"},
        "spec": {
            "request": base64.b64encode(PEM).decode(),
            "signerName": "example.com/x",
            "usages": ["client auth"],
            **spec,
        },
    }


async def decide(client: httpx.AsyncClient, kind: str) -> httpx.Response:
    obj = (await client.get(f"{REQUESTS}/r")).json()
    conditions = obj["status"].setdefault("conditions", [])
    conditions.append({"type": kind, "status": "True", "reason": "Kubectl", "message": "by hand"})
    return await client.put(f"{REQUESTS}/r/approval", json=obj)


async def test_an_approval_is_stored_as_a_condition(client: httpx.AsyncClient) -> None:
    made = (await client.post(REQUESTS, json=request(username="somebody", groups=["g"]))).json()
    # The server sets the user of the request, and ignores what the client wrote.
    assert made["spec"]["username"] == "system:admin"
    assert made["spec"]["groups"] == ["system:masters", "system:authenticated"]
    approved = await decide(client, "Approved")
    assert approved.status_code == 200, approved.text
    condition = (await client.get(f"{REQUESTS}/r")).json()["status"]["conditions"][0]
    assert condition["type"] == "Approved"
    assert condition["lastTransitionTime"] == condition["lastUpdateTime"]


async def test_an_approved_or_denied_request_cannot_be_decided_again(client: httpx.AsyncClient) -> None:
    await client.post(REQUESTS, json=request())
    await decide(client, "Approved")
    refused = (await decide(client, "Denied")).json()
    assert refused["details"]["causes"][0]["message"] == (
        'Invalid value: "Denied": Approved and Denied conditions are mutually exclusive'
    )
    obj = (await client.get(f"{REQUESTS}/r")).json()
    obj["status"]["conditions"] = []
    undone = (await client.put(f"{REQUESTS}/r/approval", json=obj)).json()
    assert 'updates may not remove a condition of type "Approved"' in undone["message"]


async def test_a_status_update_cannot_approve(client: httpx.AsyncClient) -> None:
    obj = (await client.post(REQUESTS, json=request())).json()
    obj["status"] = {"conditions": [{"type": "Approved", "status": "True"}]}
    refused = (await client.put(f"{REQUESTS}/r/status", json=obj)).json()
    assert 'updates may not add a condition of type "Approved"' in refused["message"]


@each_case(
    ("spec", "field", "message"),
    [
        ({"request": ""}, "spec.request", 'Invalid value: "": PEM block type must be CERTIFICATE REQUEST'),
        ({"usages": []}, "spec.usages", "Required value"),
        ({"signerName": ""}, "spec.signerName", "Required value"),
        (
            {"expirationSeconds": 5},
            "spec.expirationSeconds",
            "Invalid value: 5: may not specify a duration less than 600 seconds (10 minutes)",
        ),
    ],
)
async def test_invalid_certificate_signing_requests_are_rejected(
    client: httpx.AsyncClient, spec: dict[str, Any], field: str, message: str
) -> None:
    causes = (await client.post(REQUESTS, json=request(**spec))).json()["details"]["causes"]
    assert [(cause["field"], cause["message"]) for cause in causes] == [(field, message)]
