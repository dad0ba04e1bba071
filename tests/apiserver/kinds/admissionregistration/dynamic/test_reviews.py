"""Test which versions call webhooks for token and access reviews, and the warnings about rules without effect."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37, Version

from tests.apiserver.kinds.admissionregistration.dynamic.hook import Hook
from tests.apiserver.kinds.admissionregistration.dynamic.objects import GROUP, create_policy

_REVIEWS: dict[str, tuple[str, JsonObject]] = {
    "TokenReview": ("authentication.k8s.io/v1/tokenreviews", {"token": "t"}),
    "SelfSubjectReview": ("authentication.k8s.io/v1/selfsubjectreviews", {}),
    "SelfSubjectAccessReview": (
        "authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    ),
    "SelfSubjectRulesReview": ("authorization.k8s.io/v1/selfsubjectrulesreviews", {"namespace": "default"}),
}
_RULE: JsonObject = {
    "apiGroups": ["authentication.k8s.io", "authorization.k8s.io"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": [
        "tokenreviews",
        "selfsubjectreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
    ],
}
_GATE = "ExcludeAdmissionWebhookVirtualResources"
_DENIED = 'admission webhook "v.example.com" denied the request'


def choose_version(version: Version, **gates: bool) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("features", [FeatureGates(version, **gates)])


@pytest.fixture
def config(tmp_path: Path, features: FeatureGates) -> Config:
    return Config(port=0, data=tmp_path, database=IN_MEMORY, features=features)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    def deny(_request: JsonObject, response: JsonObject) -> None:
        response["allowed"] = False

    async with Hook() as started:
        started.behaviours["/"] = deny
        yield started


async def register(client: httpx.AsyncClient, hook: Hook, name: str = "hooks") -> httpx.Response:
    webhook = {
        "name": "v.example.com",
        "clientConfig": hook.url("/"),
        "rules": [_RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook],
    }
    return await client.post(f"{GROUP}/validatingwebhookconfigurations", json=configuration)


async def review(client: httpx.AsyncClient, kind: str) -> httpx.Response:
    path, spec = _REVIEWS[kind]
    version = path.rpartition("/")[0]
    return await client.post(f"/apis/{path}", json={"apiVersion": version, "kind": kind, "spec": spec})


@pytest.mark.parametrize("kind", _REVIEWS)
@pytest.mark.parametrize("features", [FeatureGates(V1_36), FeatureGates(V1_37, **{_GATE: False})])
async def test_webhooks_are_called_for_token_and_access_reviews(
    client: httpx.AsyncClient, hook: Hook, kind: str
) -> None:
    assert "warning" not in (await register(client, hook)).headers
    answer = await review(client, kind)
    assert (answer.status_code, answer.json()["message"].startswith(_DENIED)) == (400, True)
    assert [one["request"]["kind"]["kind"] for one in hook.reviews] == [kind]


@choose_version(V1_37)
async def test_webhooks_are_not_called_for_token_and_access_reviews_since_1_37(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    text = (await register(client, hook)).headers["warning"]
    assert (
        "webhooks[0].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks" in text
    )
    assert {(await review(client, kind)).status_code for kind in _REVIEWS} == {201}
    assert hook.reviews == []


@choose_version(V1_36)
async def test_policies_are_not_evaluated_for_token_and_access_reviews(client: httpx.AsyncClient) -> None:
    spec = {"matchConstraints": {"resourceRules": [_RULE]}, "validations": [{"expression": "false"}]}
    await create_policy(client, "p", spec)
    assert {(await review(client, kind)).status_code for kind in _REVIEWS} == {201}


_RESERVED = 'names ending with ".static.k8s.io" are reserved for static manifest-based configurations'


@pytest.mark.parametrize(
    ("features", "code", "is_warned"),
    [
        (FeatureGates(V1_37), 422, False),
        (FeatureGates(V1_37, ManifestBasedAdmissionControlConfig=False), 201, True),
        (FeatureGates(Version(1, 35)), 201, False),
    ],
)
async def test_webhook_names_that_end_in_static_k8s_io_are_reserved_or_warned_about(
    client: httpx.AsyncClient, hook: Hook, code: int, is_warned: bool
) -> None:
    answer = await register(client, hook, "a.static.k8s.io")
    assert answer.status_code == code
    assert (_RESERVED in answer.text.replace("\\", "")) == (code == 422)
    assert (_RESERVED in answer.headers.get("warning", "").replace("\\", "")) == is_warned
