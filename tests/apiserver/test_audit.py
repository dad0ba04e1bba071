"""Test the audit log: the events that policies request, and the rotation of large files."""

import base64
import gzip
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import orjson
import pytest
from dra_apiserver import main, protobuf
from dra_apiserver.audit import AuditLog, load_policy
from dra_apiserver.config import AuditOptions, Config
from dra_apiserver.protobuf import MEDIA_TYPE as PROTOBUF
from dra_apiserver.server import ApiServer
from dra_apiserver.storage import Resource, Store
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_apiserver.user import UserInfo
from dra_shared.clock import FakeClock
from dra_shared.jsontypes import JsonObject

_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: None, users: [quiet]}
- {level: RequestResponse, resources: [{group: "", resources: [configmaps]}], omitManagedFields: true}
- {level: Request, resources: [{group: "", resources: ["namespaces", "*/log"]}], omitStages: [RequestReceived]}
- {level: Metadata, nonResourceURLs: ["/version*"]}
- {level: Metadata, resources: [{group: "", resources: [secrets], resourceNames: [known]}]}
- {level: None, verbs: [list]}
- {level: Metadata, omitStages: [RequestReceived]}
"""
_BARE = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
_KNOWN = {
    "t": UserInfo("jane", ("team", "system:masters", "system:authenticated"), uid="7"),
    "q": UserInfo("quiet", ("system:masters",)),
}
_JANE = {"authorization": "Bearer t", "user-agent": "test/1"}
_MAPS = "/api/v1/namespaces/default/configmaps"


class _Log:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0

    def new(self) -> list[JsonObject]:
        """Return the events since the last call, without the fields that always differ."""
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        events = [orjson.loads(line) for line in lines[self._seen :]]
        self._seen = len(lines)
        for event in events:
            for field in ("requestReceivedTimestamp", "stageTimestamp"):
                assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", event.pop(field))
            assert str(uuid.UUID(event["auditID"])) == event.pop("auditID")
        return events


@asynccontextmanager
async def _serve(folder: Path, text: str = _POLICY) -> AsyncIterator[tuple[httpx.AsyncClient, _Log]]:
    policy, path = folder / "policy.yaml", folder / "logs" / "audit.log"
    policy.write_text(text)
    config = Config(
        port=0,
        data=folder,
        database=IN_MEMORY,
        authorization_mode="RBAC",
        anonymous_auth=False,
        known_tokens=_KNOWN,
        audit=AuditOptions(policy, str(path)),
    )
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        yield client, _Log(path)


async def test_unexpected_errors_are_logged_as_panics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Store, resource: Resource, key: str) -> None:
        raise RuntimeError("out of order")

    async with _serve(tmp_path) as (client, log):
        monkeypatch.setattr(Store, "get", fail)
        assert (await client.get(f"{_MAPS}/c", headers=_JANE)).status_code == 500
        received, panic = log.new()
        assert received["stage"] == "RequestReceived"
        assert panic["stage"] == "Panic"
        assert panic["responseStatus"] == {
            "metadata": {},
            "status": "Failure",
            "message": "APIServer panic'd: out of order",
            "reason": "InternalError",
            "code": 500,
        }
        assert "responseObject" not in panic


async def test_audit_events_equal_upstreams(tmp_path: Path) -> None:
    async with _serve(tmp_path) as (client, log):
        made = await client.post(_MAPS, json={"metadata": {"name": "c"}, "data": {"a": "b"}}, headers=_JANE)
        received, complete = log.new()
        user = {
            "username": "jane",
            "uid": "7",
            "groups": ["team", "system:masters", "system:authenticated"],
        }
        common = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "RequestResponse",
            "requestURI": _MAPS,
            "verb": "create",
            "user": user,
            "sourceIPs": ["127.0.0.1"],
            "userAgent": "test/1",
        }
        where = {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"}
        assert received == {**common, "stage": "RequestReceived", "objectRef": where}
        stored = made.json()
        del stored["metadata"]["managedFields"]
        assert complete == {
            **common,
            "stage": "ResponseComplete",
            "objectRef": {**where, "name": "c"},
            "responseStatus": {"metadata": {}, "code": 201},
            "requestObject": {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {"name": "c"},
                "data": {"a": "b"},
            },
            "responseObject": stored,
            "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
        }


async def test_events_of_new_tokens_have_their_ids(tmp_path: Path) -> None:
    account = "/api/v1/namespaces/default/serviceaccounts"
    async with _serve(tmp_path) as (client, log):
        await client.post(account, json={"metadata": {"name": "sa"}}, headers=_JANE)
        answer = await client.post(f"{account}/sa/token", json={}, headers=_JANE)
        payload = answer.json()["status"]["token"].split(".")[1]
        claims = orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        annotations = log.new()[-1]["annotations"]
        assert annotations["authentication.kubernetes.io/issued-credential-id"] == f"JTI={claims['jti']}"


async def test_audit_events_of_rejected_requests_have_the_reason(tmp_path: Path) -> None:
    async with _serve(tmp_path) as (client, log):
        assert (await client.get(f"{_MAPS}/c", headers={"authorization": "Bearer x"})).status_code == 401
        (rejected,) = log.new()
        assert (rejected["stage"], rejected["user"]) == ("ResponseStarted", {})
        assert rejected["responseStatus"] == {
            "metadata": {},
            "status": "Failure",
            "message": "Unauthorized",
            "reason": "Unauthorized",
            "code": 401,
        }
        await client.get("/api/v1/nodes/n", headers={**_JANE, "impersonate-user": "joe"})
        (forbidden,) = log.new()
        assert forbidden["user"]["username"] == "jane"
        assert forbidden["impersonatedUser"] == {"username": "joe", "groups": ["system:authenticated"]}
        assert forbidden["responseStatus"]["reason"] == "Forbidden"
        assert forbidden["responseStatus"]["code"] == 403
        assert forbidden["annotations"] == {
            "authorization.k8s.io/decision": "forbid",
            "authorization.k8s.io/reason": "",
        }


@pytest.mark.parametrize(
    ("path", "stages", "level"),
    [
        ("/version", ["RequestReceived", "ResponseComplete"], "Metadata"),
        ("/readyz", ["ResponseComplete"], "Metadata"),
        ("/api/v1/namespaces/default", ["ResponseComplete"], "Request"),
        ("/api/v1/namespaces/default/pods/p/log", ["ResponseComplete"], "Request"),
        ("/api/v1/namespaces/default/pods/p", ["ResponseComplete"], "Metadata"),
        ("/api/v1/namespaces/default/secrets/known", ["RequestReceived", "ResponseComplete"], "Metadata"),
        ("/api/v1/namespaces/default/secrets/other", ["ResponseComplete"], "Metadata"),
        ("/api/v1/pods", [], ""),
        ("/api/v1/pods?watch=1&timeoutSeconds=0", ["ResponseStarted", "ResponseComplete"], "Metadata"),
    ],
)
async def test_the_first_matching_rule_decides_the_audit_level(
    tmp_path: Path, path: str, stages: list[str], level: str
) -> None:
    async with _serve(tmp_path) as (client, log):
        async with client.stream("GET", path, headers=_JANE) as answer:
            if "watch" not in path:
                await answer.aread()
        await client.get("/version", headers={"authorization": "Bearer q"})
    events = log.new()
    assert [event["stage"] for event in events] == stages
    assert {event["level"] for event in events} <= {level}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Policy", "the file is not a Policy of audit.k8s.io/v1"),
        (_BARE, "loaded illegal policy with 0 rules"),
        (
            f"{_BARE}rules: [{{level: All}}]",
            'rules[0].level: Unsupported value: "All": supported values: "None",',
        ),
        (f"{_BARE}rules: [{{users: [a]}}]", "rules[0].level: Required value"),
        (
            f"{_BARE}rules: [{{level: None, omitStages: [End]}}]",
            'rules[0].omitStages[0]: Invalid value: "End": allowed stages are RequestReceived,ResponseStarted,',
        ),
        (f"{_BARE}rules: [{{level: None, users: kubelet}}]", "rules[0].users is not a list of strings"),
        (
            f"{_BARE}rules: [{{level: None, resources: [pods]}}]",
            "rules[0].resources is not a list of objects",
        ),
        (f"{_BARE}rules: {{level: None}}", "rules is not a list of objects"),
        (f"{_BARE}omitStages: Panic", "omitStages is not a list of strings"),
        (
            f'{_BARE}rules: [{{level: None, nonResourceURLs: ["healthz", "/a*b"]}}]',
            """[rules[0].nonResourceURLs[0]: Invalid value: "healthz": non-resource URL rules must begin with a '/' """
            """character, rules[0].nonResourceURLs[1]: Invalid value: "/a*b": """,
        ),
        (
            f"{_BARE}rules: [{{level: None, resources: [{{group: apps/v1}}]}}]",
            'rules[0].resources.group: Invalid value: "apps/v1"',
        ),
        (
            f"{_BARE}rules: [{{level: None, resources: [{{resourceNames: [a]}}]}}]",
            'rules[0].resources.resourceNames: Invalid value: ["a"]: using resourceNames requires at least',
        ),
    ],
)
def test_an_invalid_audit_policy_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        load_policy(file)
    assert str(caught.value).startswith("loading audit policy file: ")
    assert str(caught.value).endswith(f": from file {file}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--audit-log-maxsize", "-1"], "--audit-log-maxsize -1 can't be a negative number"),
        (["--audit-log-maxage", "-2"], "--audit-log-maxage -2 can't be a negative number"),
        (["--audit-log-maxbackup", "-3"], "--audit-log-maxbackup -3 can't be a negative number"),
        (["--audit-log-path", "POLICY/audit.log"], "POLICY'"),
        (["--audit-log-path", "FOLDER"], "Is a directory"),
    ],
)
def test_the_server_does_not_start_if_the_audit_log_cannot_be_written(
    tmp_path: Path, words: list[str], message: str
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"{_BARE}rules: [{{level: Metadata}}]")

    def put(text: str) -> str:
        return text.replace("POLICY", str(policy)).replace("FOLDER", str(tmp_path))

    chosen = main.options().parse_args(["--audit-policy-file", str(policy), *map(put, words)])
    with pytest.raises((OSError, ValueError), match=re.escape(put(message))):
        main._audit(chosen)


def test_the_audit_log_is_created_at_the_start(tmp_path: Path) -> None:
    policy, log = tmp_path / "policy.yaml", tmp_path / "logs" / "audit.log"
    policy.write_text(f"{_BARE}rules: [{{level: Metadata}}]")
    words = ["--audit-policy-file", str(policy), "--audit-log-path"]
    main._audit(main.options().parse_args([*words, "-"]))
    assert not log.exists()
    main._audit(main.options().parse_args([*words, str(log)]))
    assert log.stat().st_mode & 0o777 == 0o600


def test_unknown_fields_of_an_audit_policy_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f"{_BARE}x: 1\nrules: [{{level: Metadata, w: 1, resources: [{{z: 1}}]}}]")
    assert load_policy(file).unknown == ("x", "rules[0].w", "rules[0].resources[0].z")


async def test_objects_sent_in_protobuf_are_logged_as_json(tmp_path: Path) -> None:
    binary = {**_JANE, "content-type": PROTOBUF, "accept": PROTOBUF}
    message = protobuf.message(
        "io.k8s.api.core.v1.ConfigMap", {"metadata": {"name": "c"}, "data": {"a": "b"}}
    )
    wanted = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}, "data": {"a": "b"}}
    listed = f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    table = "application/json;as=Table;g=meta.k8s.io;v=v1"
    async with _serve(tmp_path) as (client, log):
        await client.post(_MAPS, content=protobuf.envelope("v1", "ConfigMap", message), headers=binary)
        _, made = log.new()
        stored = (await client.get(f"{_MAPS}/c", headers=_JANE)).json()
        del stored["metadata"]["managedFields"]
        assert (made["objectRef"]["name"], made["requestObject"]) == ("c", wanted)
        assert made["responseObject"] == stored
        log.new()
        for accept, key in (
            (PROTOBUF, "items"),
            (listed, "items"),
            ("application/yaml", "items"),
            (table, "rows"),
        ):
            await client.get(_MAPS, headers={**_JANE, "accept": accept})
            _, found = log.new()
            one = found["responseObject"][key][0]
            meta = (one["object"] if key == "rows" else one)["metadata"]
            assert (meta["name"], "managedFields" in meta) == ("c", False), accept
        await client.get(f"{_MAPS}/x", headers={**_JANE, "accept": PROTOBUF})
        _, missing = log.new()
        assert missing["responseStatus"]["message"] == 'configmaps "x" not found'
        assert missing["responseStatus"] == {
            "metadata": {},
            **{
                field: missing["responseObject"][field]
                for field in ("status", "message", "reason", "details", "code")
            },
        }


async def test_a_client_may_set_the_audit_id_of_its_request(tmp_path: Path) -> None:
    async with _serve(tmp_path) as (client, _):
        headers = {**_JANE, "audit-id": "its-own", "user-agent": "x" * 1025}
        answer = await client.get("/version", headers=headers)
        events = [orjson.loads(line) for line in (tmp_path / "logs" / "audit.log").read_bytes().splitlines()]
    assert answer.headers["audit-id"] == "its-own"
    assert {event["auditID"] for event in events} == {"its-own"}
    assert {event["userAgent"] for event in events} == {f"{'x' * 1024}...TRUNCATED"}


async def test_each_request_has_a_unique_audit_id(tmp_path: Path) -> None:
    async with _serve(tmp_path) as (client, _):
        answers = [await client.get("/version", headers=_JANE) for _ in range(3)]
        events = [orjson.loads(line) for line in (tmp_path / "logs" / "audit.log").read_bytes().splitlines()]
    names = [answer.headers["audit-id"] for answer in answers]
    assert [event["auditID"] for event in events[::2]] == names
    assert len({uuid.UUID(name) for name in names}) == 3
    assert {uuid.UUID(name).version for name in names} == {4}


async def test_request_objects_are_logged_with_defaults_and_without_server_set_fields(tmp_path: Path) -> None:
    """Check that objects have defaults, but not yet a namespace or name (`LogRequestObject`).

    Patches are unchanged.
    """
    policy = '- {level: Request, resources: [{group: "", resources: ["*"]}]}'
    async with _serve(tmp_path, f"{_BARE}rules:\n{policy}\n") as (client, log):
        path = "/api/v1/namespaces/default/services"
        service = {"metadata": {"generateName": "s-", "annotations": {}}, "spec": {"ports": [{"port": 80}]}}
        made = (await client.post(path, json=service, headers=_JANE)).json()
        asked = log.new()[1]
        assert asked["requestObject"]["metadata"] == {"generateName": "s-"}
        assert asked["requestObject"]["spec"] == {
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
        }
        assert asked["requestObject"]["status"] == {"loadBalancer": {}}
        assert "name" not in asked["objectRef"]
        patch = {"spec": {"sessionAffinity": None}}
        one = f"{path}/{made['metadata']['name']}"
        merge = {**_JANE, "content-type": "application/merge-patch+json"}
        await client.patch(one, json=patch, headers=merge)
        assert log.new()[1]["requestObject"] == patch
        await client.request("DELETE", one, json={"gracePeriodSeconds": 0}, headers=_JANE)
        options = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 0}
        assert log.new()[1]["requestObject"] == options
        bad = await client.post(path, json={**service, "kind": "Pod"}, headers=_JANE)
        assert bad.status_code == 400
        assert "requestObject" not in log.new()[1]
        await client.get("/api/v1/namespaces/default/endpoints", headers=_JANE)
        received, complete = log.new()
        assert "k8s.io/deprecated" not in received.get("annotations", {})
        assert complete["annotations"]["k8s.io/deprecated"] == "true"


async def test_addresses_and_paths_are_logged_as_received(tmp_path: Path) -> None:
    async with _serve(tmp_path) as (client, log):
        proxied = {"x-forwarded-for": "10.0.0.1, x, 127.0.0.1,10.0.0.1", "x-real-ip": "10.0.0.1"}
        await client.get(f"{_MAPS}/a%62?pretty=%74", headers={**_JANE, **proxied})
        event = log.new()[0]
        assert event["sourceIPs"] == ["10.0.0.1", "127.0.0.1", "10.0.0.1", "127.0.0.1"]
        assert event["requestURI"] == f"{_MAPS}/a%62?pretty=%74"


def _files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


async def test_a_large_audit_log_is_rotated(tmp_path: Path) -> None:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    path = tmp_path / "audit.log"
    log = AuditLog(str(path), clock, max_size=1, max_backups=2, max_age=3, compress=True)
    line = b"x" * ((1 << 20) - 1)
    for _ in range(4):
        log.write(line)
        await clock.advance(1.5)
    names = _files(tmp_path)
    assert names == [
        "audit-2026-01-01T00-00-03.000.log.gz",
        "audit-2026-01-01T00-00-04.500.log.gz",
        "audit.log",
    ]
    assert gzip.decompress((tmp_path / names[0]).read_bytes()) == line + b"\n"
    await clock.advance(timedelta(days=4).total_seconds())
    log.write(line)
    log.close()
    assert _files(tmp_path)[1:] == ["audit.log"]
    assert path.read_bytes() == line + b"\n"
