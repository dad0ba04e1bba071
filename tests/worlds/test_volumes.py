"""Plans end without errors although pods wait for their volumes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from dra_shared.jsontypes import JsonObject

from tests.worlds.objects import cluster, pod

_META = {"namespace": "default", "uid": "uid-data", "name": "data"}
_WAITING: list[JsonObject] = [
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _META,
        "spec": {
            "storageClassName": "later",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "later", "uid": "uid-later"},
        "provisioner": "example.com/disk",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
]


def _dump(path: Path) -> str:
    waits = pod("waits")
    waits["spec"] = {
        "schedulerName": "default-scheduler",
        "containers": [{"name": "main"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    items = [*cluster(), waits, *_WAITING]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


# Warnings about coroutines that were never awaited appear at the end of the process at the latest.
_PROGRAM = """
from dra_cli.main import main
from dralab import World

for words in ("fit pod.json", "drain node-0", "pack --for pod.json", "change pod.json"):
    try:
        main(["plan", *words.split(), "--from", "dump.json"])
    except SystemExit as end:
        print(words, "ended with", end.code)
world = World.load("dump.json")
print(world.fit("pod.json").fits, world.drain("node-0").moved, world.without_nodes("node-0").fit("pod.json").fits)
"""


@pytest.mark.slow
def test_pods_that_wait_for_volumes_cause_no_errors_or_warnings_in_plans(tmp_path: Path) -> None:
    _dump(tmp_path / "dump.json")
    small = {"containers": [{"name": "main", "image": "x"}]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": small}
    (tmp_path / "pod.json").write_text(json.dumps(manifest))
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.count("ended with") == 4
