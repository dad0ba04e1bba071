"""``dralab check`` finds nothing against the same version, and advises `convert` for objects of an older shape."""

import json
from pathlib import Path
from typing import Any

import pytest
from dra_cli import commandline
from dra_shared.version import VERSIONS

from tests.support.reference import REPOSITORY
from tests.support.sampling import sample

# The files of examples/drivers are profiles of drivers, and not objects.
_MANIFESTS = sorted(
    path
    for folder in ("examples", "tests/data/classic")
    for path in (REPOSITORY / folder).rglob("*.yaml")
    if path.parent.name != "drivers"
)
# Each gets values that the API server allocates: addresses, ports, uids, names.
_ALLOCATED = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {a: b}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {generateName: exposed-}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  selector: {a: b}
  ports: [{name: a, port: 80}, {name: b, port: 443}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: named}
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {generateName: trial-}
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}
---
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec: {containers: [{name: c, image: busybox}]}
"""


def _check(capsys: pytest.CaptureFixture[str], file: Path, *options: str) -> tuple[int, list[dict[str, Any]]]:
    code = commandline.run("check", [str(file), "-o", "json", *options])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return code, found


@pytest.mark.parametrize("version", sample([str(version) for version in VERSIONS], 1))
def test_a_check_against_the_same_version_finds_nothing(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    allocated = tmp_path / "allocated.yaml"
    allocated.write_text(_ALLOCATED)
    for file in (allocated, *_MANIFESTS):
        code, found = _check(capsys, file, "--against", version, "--kubernetes-version", version)
        assert code == 0, (file, found)
        assert [one for one in found if one["level"] == "otherwise"] == []


def test_allocated_values_are_not_reported_as_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "allocated.yaml"
    file.write_text(_ALLOCATED)
    code, found = _check(capsys, file, "--against", "1.37", "--kubernetes-version", "1.34")
    assert (code, [one for one in found if one["about"] == "object"]) == (0, [])


_OLDER = {
    "flat": (
        """
        apiVersion: resource.k8s.io/v1beta1
        kind: ResourceClaim
        metadata: {name: a, creationTimestamp: null}
        spec: {devices: {requests: [{name: gpu, deviceClassName: gpu}]}}
        """,
        "use `dralab convert it.yaml`, which makes it resource.k8s.io/v1",
    ),
    "same shape": (
        """
        apiVersion: resource.k8s.io/v1beta2
        kind: ResourceClaim
        metadata: {name: a}
        spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
        """,
        "use apiVersion: resource.k8s.io/v1",
    ),
    "with a class": (
        """
        apiVersion: resource.k8s.io/v1alpha2
        kind: ResourceClaimTemplate
        metadata: {name: a}
        spec: {spec: {resourceClassName: gpu}}
        """,
        "use `dralab convert it.yaml`, which makes it resource.k8s.io/v1",
    ),
    "class": (
        """
        apiVersion: resource.k8s.io/v1alpha2
        kind: ResourceClass
        metadata: {name: gpu}
        driverName: gpu.example.com
        """,
        "DeviceClass of resource.k8s.io/v1 took its place: use `dralab convert it.yaml`",
    ),
    "pod with source": (
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: a}
        spec:
          containers: [{name: c, image: x}]
          resourceClaims: [{name: gpu, source: {resourceClaimTemplateName: gpu}}]
        """,
        "use `dralab convert it.yaml`",
    ),
    "pod group": (
        """
        apiVersion: scheduling.k8s.io/v1alpha2
        kind: PodGroup
        metadata: {name: a}
        spec:
          disruptionMode: PodGroup
          schedulingPolicy: {gang: {minCount: 2}}
        """,
        "use `dralab convert it.yaml`, which makes it scheduling.k8s.io/v1beta1, with"
        " --feature-gates=GenericWorkload=true --runtime-config=scheduling.k8s.io/v1beta1=true",
    ),
}


@pytest.mark.parametrize(("manifest", "advice"), _OLDER.values(), ids=_OLDER)
def test_conversion_is_advised_for_objects_of_an_older_shape(
    manifest: str,
    advice: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("it.yaml").write_text(manifest)
    _, found = _check(capsys, Path("it.yaml"), "--against", "1.37")
    assert [one["advice"] for one in found if one.get("advice")] == [advice]
