"""Plans end quietly although pods of the world wait for their volumes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.objects import Json, cluster, pod

_META = {"namespace": "default", "uid": "uid-data", "name": "data"}
_WAITING: list[Json] = [
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


_WORLD = """
from dralab import World
world = World.load("dump.json")
print(world.fit("pod.json").fits, world.drain("node-0").moved, world.without_nodes("node-0").fit("pod.json").fits)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["-m", "dra_cli.main", "plan", "fit", "pod.json", "--from", "dump.json"],
        ["-m", "dra_cli.main", "plan", "drain", "node-0", "--from", "dump.json"],
        ["-m", "dra_cli.main", "plan", "pack", "--for", "pod.json", "--from", "dump.json"],
        ["-m", "dra_cli.main", "plan", "change", "pod.json", "--from", "dump.json"],
        ["-c", _WORLD],
    ],
)
def test_nothing_is_reported_of_pods_that_wait_for_volumes(tmp_path: Path, words: list[str]) -> None:
    _dump(tmp_path / "dump.json")
    small = {"containers": [{"name": "main", "image": "x"}]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": small}
    (tmp_path / "pod.json").write_text(json.dumps(manifest))
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
