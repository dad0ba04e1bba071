"""Measure the archive behind ``--history``: bytes per revision, time to read the past, and cost for writes.

Pods are created, changed seven times and deleted, in an order drawn from a seed. Only pods are stored, because claims
are about as large. Revisions are written without HTTP, so that a million of them take minutes.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from dra_apiserver.storage import ADDED, DELETED, MODIFIED, Event, Record
from dra_apiserver.storage.archive import reading
from dra_apiserver.storage.archive.keeper import Keeper
from dra_apiserver.storage.catalog import IN_DIRECTORY, Database, engine
from dra_apiserver.storage.engine import Engine
from dra_apiserver.storage.records import Change
from dra_apiserver.storage.sessions import Range
from dra_apiserver.storage.sqlsessions import SqlReading
from dra_shared.retention import parse_retention

_PODS = ("", "pods")
_BATCH = 64
_WINDOW = 20_000
_AUTHOR = orjson.dumps(["system:admin", "dralab-kubelet/1.0", "kubelet", "patch", "status"]).decode()


def main(arguments: Sequence[str]) -> None:
    """Run the benchmark and print each figure with its goal."""
    parser = argparse.ArgumentParser(prog="python -m bench history", description=__doc__)
    parser.add_argument(
        "--revisions",
        type=int,
        default=100_000,
        help="the number of revisions (100,000; the goal is for 1,000,000)",
    )
    parser.add_argument("--pods", type=int, default=5000, help="the number of pods at any time (5,000)")
    parser.add_argument("--seed", type=int, default=1, help="the seed for the pods' lives (1)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(Path(folder), chosen.revisions, chosen.pods, random.Random(chosen.seed)))


async def _measure(folder: Path, revisions: int, pods: int, chance: random.Random) -> None:
    made = engine(Database(IN_DIRECTORY, folder, relaxed=True))
    made.open()
    keeper = Keeper.begin(made, parse_retention("all"), 1, 0)
    assert keeper is not None
    writing = packing = 0.0
    batch: list[Change] = []
    newest = 1
    for change in _lives(revisions, pods, chance):
        batch.append(change)
        newest = change.event.revision
        if len(batch) == _BATCH:
            before = time.thread_time()
            made.write(batch)
            writing += time.thread_time() - before
            batch = []
        if newest % _WINDOW == 0:
            packing += await _pack(keeper, newest - _WINDOW)
    made.write(batch)
    packing += await _pack(keeper, newest)
    print(f"writing: {writing / revisions * 1e6:.0f} µs CPU a revision in the database's thread")
    print(f"packing: {packing / revisions * 1e6:.0f} µs CPU a revision, most of it in another thread")
    _print_size(made, revisions)
    _print_times(made, newest, chance)
    made.close()


async def _pack(keeper: Keeper, compacted: int) -> float:
    async def here(work: Callable[[], Any]) -> Any:
        return work()

    run: Callable[[Callable[[], Any]], Awaitable[Any]] = here
    before = time.thread_time()
    while await keeper.step(compacted, 0, run, run):
        pass
    return time.thread_time() - before


def _print_size(made: Engine, revisions: int) -> None:
    with made.begin_reading() as session:
        assert isinstance(session, SqlReading)
        packed = sum(session.usage().values())
        raw = session.connection.exec_driver_sql("SELECT sum(raw) FROM segments").scalar() or 0
        keys = session.connection.exec_driver_sql(
            "SELECT sum(length(resource) + length(key) + 8) FROM segment_keys"
        ).scalar()
        print(f"{raw / revisions:.0f} bytes of JSON a revision of a pod")
        print(f"{(packed + (keys or 0)) / revisions:.0f} bytes a revision on disk (goal: 400)")


def _print_times(made: Engine, newest: int, chance: random.Random) -> None:
    moments, one, changes = [], [], []
    key = ""
    for _ in range(30):
        revision = chance.randrange(newest // 100, newest)
        with made.begin_reading() as session:
            before = time.thread_time()
            found = reading.objects(session, _PODS, revision)
            moments.append(time.thread_time() - before)
            key = chance.choice([*found])
            before = time.thread_time()
            assert reading.version(session, _PODS, key, revision) is not None
            one.append(time.thread_time() - before)
            before = time.thread_time()
            assert reading.entries(session, Range(_PODS, key=key, until=newest))
            changes.append(time.thread_time() - before)
    for name, goal, times in (
        ("all pods of a moment", " (goal: 300)", moments),
        ("one pod of a moment", "", one),
        ("the changes of a pod", "", changes),
    ):
        median, most = statistics.median(times) * 1000, max(times) * 1000
        print(f"{name}: median {median:.0f} ms, at most {most:.0f} ms{goal}, in CPU time")


def _lives(revisions: int, pods: int, chance: random.Random) -> Iterator[Change]:
    alive: list[tuple[Iterator[tuple[str, dict[str, Any]]], Record | None]] = []
    number = revision = 0
    while revision < revisions:
        while len(alive) < pods:
            alive.append((_life(number, chance), None))
            number += 1
        place = chance.randrange(len(alive))
        life, previous = alive[place]
        kind, obj = next(life)
        revision += 1
        meta = obj["metadata"]
        meta["resourceVersion"] = str(revision + 1)
        record = Record(f"{meta['namespace']}/{meta['name']}", revision + 1, orjson.dumps(obj))
        alive[place] = (life, record)
        if kind == DELETED:
            alive[place] = alive[-1]
            alive.pop()
        yield Change(_PODS, Event(kind, record, previous), 1_700_000_000_000 + revision * 10, _AUTHOR)


def _life(number: int, chance: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the versions of one pod with a GPU, from its creation to its deletion."""
    obj = _pod(number, chance)
    yield ADDED, obj
    now = f"2026-01-02T03:{number // 60 % 60:02}:{number % 60:02}Z"
    meta, spec, status = obj["metadata"], obj["spec"], obj["status"]
    claim = f"{meta['name']}-gpu-{chance.randrange(1 << 20):05x}"
    status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": claim}]
    yield MODIFIED, obj
    spec["nodeName"] = f"node-{chance.randrange(5000)}"
    status["conditions"] = [_condition("PodScheduled", now)]
    yield MODIFIED, obj
    status |= {
        "podIP": f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}",
        "startTime": now,
    }
    yield MODIFIED, obj
    status["phase"] = "Running"
    status["conditions"] += [_condition(name, now) for name in ("Initialized", "Ready", "ContainersReady")]
    status["containerStatuses"] = [
        {
            "name": "main",
            "state": {"running": {"startedAt": now}},
            "lastState": {},
            "ready": True,
            "restartCount": 0,
            "image": "registry.example/train:1.2",
            "imageID": f"sha256:{chance.getrandbits(256):064x}",
            "containerID": f"containerd://{chance.getrandbits(256):064x}",
        }
    ]
    meta["managedFields"].append(
        _managed_fields("kubelet", now, {"f:status": {"f:phase": {}, "f:podIP": {}}})
    )
    yield MODIFIED, obj
    meta |= {"deletionTimestamp": now, "deletionGracePeriodSeconds": 30}
    yield MODIFIED, obj
    status["phase"] = "Succeeded"
    yield MODIFIED, obj
    yield DELETED, obj


def _condition(name: str, now: str) -> dict[str, Any]:
    return {"type": name, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}


def _managed_fields(manager: str, now: str, fields: dict[str, Any]) -> dict[str, Any]:
    head = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": now}
    return {**head, "fieldsType": "FieldsV1", "fieldsV1": fields}


def _pod(number: int, chance: random.Random) -> dict[str, Any]:
    uid = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    now = f"2026-01-02T03:{number // 60 % 60:02}:{number % 60:02}Z"
    container: dict[str, Any] = {
        "f:image": {},
        "f:name": {},
        "f:resources": {".": {}, "f:claims": {".": {}, 'k:{"name":"gpu"}': {}}},
    }
    fields = {
        "f:spec": {"f:containers": {'k:{"name":"main"}': container}, "f:restartPolicy": {}, "f:dnsPolicy": {}}
    }
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"train-{number // 8}-{uid[:5]}",
            "namespace": f"team-{number % 20}",
            "uid": uid,
            "creationTimestamp": now,
            "labels": {"app": f"train-{number // 8}", "job": "train"},
            "managedFields": [_managed_fields("dralab-controller", now, fields)],
        },
        "spec": {
            "volumes": [{"name": f"kube-api-access-{uid[:5]}", "projected": {"sources": [token]}}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1.2",
                    "command": ["python", "train.py", "--epochs", "100"],
                    "resources": {"claims": [{"name": "gpu"}]},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{name}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for name in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }
