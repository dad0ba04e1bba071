"""Test a data directory that several versions of Kubernetes use one after the other."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage import kubernetesversion
from dra_shared.features import FeatureGates
from dra_shared.service import CannotRun
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, Version

_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "d"}}]}},
}


async def _ask(
    data: Path,
    version: Version,
    method: str,
    path: str,
    body: Any = None,
    gates: FeatureGates | None = None,
    served: str = "",
) -> httpx.Response:
    features = gates or FeatureGates(version)
    config = Config(port=0, data=data, relaxed=True, features=features, runtime_config=served)
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        return await client.request(method, path, json=body)


async def test_objects_of_an_older_version_are_kept(tmp_path: Path) -> None:
    made = (await _ask(tmp_path, V1_34, "POST", _CLAIMS, _CLAIM)).json()
    for version in (V1_34, V1_35, V1_36):
        seen = (await _ask(tmp_path, version, "GET", f"{_CLAIMS}/c")).json()
        assert seen == made, version
    changed = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    after = await _ask(tmp_path, V1_36, "PUT", f"{_CLAIMS}/c", changed)
    assert (after.status_code, after.json()["spec"]) == (200, made["spec"])
    with pytest.raises(
        CannotRun, match=r"is of Kubernetes 1\.36, and 1\.35 is older: start it with --kubernetes"
    ):
        await _ask(tmp_path, V1_35, "GET", _CLAIMS)


async def test_objects_that_only_the_older_version_can_read_are_named(tmp_path: Path) -> None:
    groups = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
    body = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    gates = FeatureGates(V1_36, GenericWorkload=True)
    served = "scheduling.k8s.io/v1alpha2=true"
    assert (await _ask(tmp_path, V1_36, "POST", groups, body, gates, served)).status_code == 201
    with pytest.raises(CannotRun) as raised:
        await _ask(tmp_path, V1_37, "GET", _CLAIMS)
    assert str(raised.value) == (
        "Kubernetes 1.37 cannot read podgroups of scheduling.k8s.io/v1alpha2 in "
        f"{tmp_path / 'apiserver'} (default/g): delete them with the version that the data is of"
    )
    # The recorded version of the directory is still 1.36.
    assert (await _ask(tmp_path, V1_36, "GET", f"{groups}/g", None, gates, served)).status_code == 200


def test_a_directory_without_version_counts_as_1_36(tmp_path: Path) -> None:
    kubernetesversion.check(tmp_path, V1_34)
    (tmp_path / "cluster.db").touch()
    kubernetesversion.check(tmp_path, V1_36)
    with pytest.raises(CannotRun):
        kubernetesversion.check(tmp_path, V1_35)


def test_a_data_directory_of_an_unknown_version_counts_as_newer(tmp_path: Path) -> None:
    (tmp_path / "kubernetes-version").write_text("1.99\n")
    with pytest.raises(CannotRun, match=r"is of Kubernetes 1\.99, and 1\.36 is older"):
        kubernetesversion.check(tmp_path, V1_36)


@pytest.mark.parametrize("text", ["", "\n", "1", "one\ntwo", "\udcff"])
def test_a_file_without_a_version_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "kubernetes-version"
    file.write_bytes(text.encode(errors="surrogateescape"))
    what = "names no version" if text.strip() else "is empty"
    with pytest.raises(CannotRun, match=rf"kubernetes-version {what}: write the version .* such as 1\.36"):
        kubernetesversion.check(tmp_path, V1_36)


def test_a_version_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kubernetes-version").mkdir()
    with pytest.raises(CannotRun, match=r"cannot read .*kubernetes-version: Is a directory"):
        kubernetesversion.check(tmp_path, V1_36)


def _without_database(data: Path) -> Path:
    (database,) = data.rglob("dralab.sqlite3")
    for file in data.rglob("dralab.sqlite3*"):
        file.unlink()
    return database


@pytest.mark.parametrize("there", [True, False])
async def test_a_lost_database_does_not_become_an_empty_cluster(there: bool, tmp_path: Path) -> None:
    assert (await _ask(tmp_path, V1_36, "POST", _CLAIMS, _CLAIM)).status_code == 201
    database = _without_database(tmp_path)
    if there:
        database.touch()
    what = "empty" if there else "missing"
    with pytest.raises(CannotRun, match=f"dralab.sqlite3 is {what}, and .*kubernetes-version says"):
        await _ask(tmp_path, V1_36, "GET", _CLAIMS)
    (database.parent / "kubernetes-version").unlink()
    assert (await _ask(tmp_path, V1_36, "GET", _CLAIMS)).json()["items"] == []


def test_the_version_file_is_written_atomically(tmp_path: Path) -> None:
    kubernetesversion.note(tmp_path, V1_36)
    kubernetesversion.note(tmp_path, V1_37)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [
        ("kubernetes-version", "1.37\n")
    ]
