"""Metadata files, with upstream's cases (metadata_test.go of kubeletplugin)."""

import json
from pathlib import Path
from typing import Any

import pytest
from dra_driverkit.cdi import resolve
from dra_driverkit.claims import ClaimRef, DeviceMetadata, PreparedDevice
from dra_driverkit.directories import Directories
from dra_driverkit.errors import DriverConfigError
from dra_driverkit.metadata import V1ALPHA1, V1BETA1, MetadataError, MetadataWriter
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resource import DeviceAttribute, NetworkDeviceData, ResourceClaim
from dra_shared.version import V1_34, V1_36, V1_37, Version

_REF = ClaimRef("default", "my-claim", "claim-uid-1234")
_MODEL = DeviceMetadata({"model": DeviceAttribute(string="A<1>"), "count": DeviceAttribute(int_=2)})


def _directories(root: Path) -> Directories:
    return Directories(root / "plugin", root / "registry", root / "cdi")


def _claim(pod_claim: str = "") -> ResourceClaim:
    annotations = {"resource.kubernetes.io/pod-claim-name": pod_claim} if pod_claim else {}
    meta = ObjectMeta(name=_REF.name, namespace=_REF.namespace, uid=_REF.uid, annotations=annotations)
    return ResourceClaim(metadata=meta)


def _device(*requests: str, name: str = "gpu-0", metadata: DeviceMetadata | None = None) -> PreparedDevice:
    return PreparedDevice(requests, "node-1", name, ("example.com/gpu=x",), metadata=metadata)


def _file(root: Path, request: str) -> Path:
    return root / "plugin" / "dra-device-metadata" / "default_my-claim" / request / "metadata.json"


def test_a_request_is_written_with_its_devices(tmp_path: Path) -> None:
    writer = MetadataWriter("example.com", _directories(tmp_path), [V1ALPHA1])
    first, second = writer.write(_claim(), [_device("gpu", metadata=_MODEL), _device("gpu", name="gpu-1")])
    assert first.cdi_ids == ("example.com/gpu=x", "example.com/metadata=claim-uid-1234_gpu")
    assert second.cdi_ids == ("example.com/gpu=x",)
    assert _file(tmp_path, "gpu").read_text() == (
        """{
  "kind": "DeviceMetadata",
  "apiVersion": "metadata.resource.k8s.io/v1alpha1",
  "metadata": {
    "name": "my-claim",
    "namespace": "default",
    "uid": "claim-uid-1234",
    "generation": 1
  },
  "requests": [
    {
      "name": "gpu",
      "devices": [
        {
          "driver": "example.com",
          "pool": "node-1",
          "name": "gpu-0",
          "attributes": {
            "count": {
              "int": 2
            },
            "model": {
              "string": "A\\u003c1\\u003e"
            }
          }
        },
        {
          "driver": "example.com",
          "pool": "node-1",
          "name": "gpu-1"
        }
      ]
    }
  ]
}
"""
    )
    assert _file(tmp_path, "gpu").stat().st_mode & 0o777 == 0o644


def test_a_cdi_device_mounts_the_file(tmp_path: Path) -> None:
    writer = MetadataWriter("example.com", _directories(tmp_path), [V1ALPHA1])
    (device,) = writer.write(_claim(), [_device("gpu")])
    assert json.loads((tmp_path / "cdi" / "example.com_metadata_claim-uid-1234_gpu.json").read_text()) == {
        "cdiVersion": "0.5.0",
        "kind": "example.com/metadata",
        "devices": [
            {
                "name": "claim-uid-1234_gpu",
                "containerEdits": {
                    "mounts": [
                        {
                            "hostPath": str(_file(tmp_path, "gpu")),
                            "containerPath": "/var/run/kubernetes.io/dra-device-attributes/resourceclaims"
                            "/my-claim/gpu/example.com-metadata.json",
                            "options": ["ro", "bind"],
                        }
                    ]
                },
            }
        ],
    }
    assert len(resolve(device.cdi_ids[1:], tmp_path / "cdi").mounts) == 1


def test_metadata_of_a_claim_from_a_template_has_the_name_in_the_pod(tmp_path: Path) -> None:
    writer = MetadataWriter("example.com", _directories(tmp_path), [V1ALPHA1])
    (device,) = writer.write(_claim("my-gpu"), [_device("gpu")])
    (mount,) = resolve(device.cdi_ids[1:], tmp_path / "cdi").mounts
    assert mount.container_path == (
        "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/my-gpu/gpu/example.com-metadata.json"
    )
    assert _documents(tmp_path, "gpu")[0]["podClaimName"] == "my-gpu"


def test_a_subrequest_is_named_in_the_file_and_not_in_its_path(tmp_path: Path) -> None:
    writer = MetadataWriter("example.com", _directories(tmp_path), [V1ALPHA1])
    (device,) = writer.write(_claim(), [_device("gpu/large")])
    assert device.cdi_ids[1:] == ("example.com/metadata=claim-uid-1234_gpu",)
    assert _documents(tmp_path, "gpu")[0]["requests"][0]["name"] == "gpu/large"


def test_each_request_has_a_file(tmp_path: Path) -> None:
    writer = MetadataWriter("example.com", _directories(tmp_path), [V1ALPHA1])
    devices = [_device("gpu"), _device("nic", name="nic-0"), _device()]
    found = [device.cdi_ids[1:] for device in writer.write(_claim(), devices)]
    assert found == [
        ("example.com/metadata=claim-uid-1234_gpu",),
        ("example.com/metadata=claim-uid-1234_nic",),
        (),
    ]


@pytest.mark.parametrize(
    ("kubernetes", "wanted", "written"),
    [
        (V1_37, [V1BETA1, V1ALPHA1], [V1BETA1, V1ALPHA1]),
        (V1_37, ["bogus/v99", V1ALPHA1, V1BETA1], [V1ALPHA1, V1BETA1]),
        (V1_36, [V1BETA1, V1ALPHA1], [V1ALPHA1]),
        (V1_34, [V1BETA1, V1ALPHA1], [V1ALPHA1]),
    ],
)
def test_each_version_has_a_document(
    tmp_path: Path, kubernetes: Version, wanted: list[str], written: list[str]
) -> None:
    writer = MetadataWriter("example.com", _directories(tmp_path), wanted, kubernetes)
    writer.write(_claim(), [_device("gpu", metadata=_MODEL)])
    documents = _documents(tmp_path, "gpu")
    assert [document.pop("apiVersion") for document in documents] == written
    assert all(document == documents[0] for document in documents)


@pytest.mark.parametrize(("kubernetes", "wanted"), [(V1_37, []), (V1_37, ["bogus/v99"]), (V1_36, [V1BETA1])])
def test_a_driver_without_known_metadata_version_is_rejected(
    tmp_path: Path, kubernetes: Version, wanted: list[str]
) -> None:
    text = (
        f"initialize device metadata: none of the requested metadata API versions [{' '.join(wanted)}]"
        " are supported"
    )
    with pytest.raises(DriverConfigError) as caught:
        MetadataWriter("example.com", _directories(tmp_path), wanted, kubernetes)
    assert str(caught.value) == text


def test_an_update_raises_the_generation(tmp_path: Path) -> None:
    writer = MetadataWriter("example.com", _directories(tmp_path), [V1BETA1, V1ALPHA1])
    writer.write(_claim("my-nic"), [_device("nic/fast")])
    inode = _file(tmp_path, "nic").stat().st_ino
    network = NetworkDeviceData(interface_name="eth0", ips=("10.0.0.5/24",), hardware_address="02:00::")
    writer.update(_REF, "nic/fast", [_device("nic/fast", metadata=DeviceMetadata(network_data=network))])
    for document in _documents(tmp_path, "nic"):
        assert document["metadata"]["generation"] == 2
        assert document["podClaimName"] == "my-nic"
        (device,) = document["requests"][0]["devices"]
        assert list(device["networkData"].items()) == [
            ("interfaceName", "eth0"),
            ("ips", ["10.0.0.5/24"]),
            ("hardwareAddress", "02:00::"),
        ]
    assert _file(tmp_path, "nic").stat().st_ino == inode, "containers have the file mounted"


def test_an_update_of_an_unprepared_request_fails(tmp_path: Path) -> None:
    writer = MetadataWriter("example.com", _directories(tmp_path), [V1BETA1])
    with pytest.raises(MetadataError, match=r'^request "nic" not found in prepared claim default/my-claim$'):
        writer.update(_REF, "nic", [])
    writer.write(_claim(), [_device("nic")])
    for damaged in (
        "{",
        "[]",
        '{"apiVersion": "v1"}',
        '{"apiVersion": "metadata.resource.k8s.io/v9", "kind": ""}',
    ):
        _file(tmp_path, "nic").write_text(damaged)
        with pytest.raises(MetadataError, match=r"^decode existing metadata: "):
            writer.update(_REF, "nic", [])


def test_removal_keeps_the_files_of_other_claims(tmp_path: Path) -> None:
    writer = MetadataWriter("example.com", _directories(tmp_path), [V1BETA1])
    other = ResourceClaim(metadata=ObjectMeta(name="other", namespace="default", uid="other-uid"))
    for claim in (_claim(), other):
        writer.write(claim, [_device("gpu"), _device("nic")])
    for _ in range(2):
        writer.remove(_REF)
        assert [path.name for path in (tmp_path / "plugin" / "dra-device-metadata").iterdir()] == [
            "default_other"
        ]
        assert sorted(path.name for path in (tmp_path / "cdi").iterdir()) == [
            "example.com_metadata_other-uid_gpu.json",
            "example.com_metadata_other-uid_nic.json",
        ]


def _documents(root: Path, request: str) -> list[dict[str, Any]]:
    text = _file(root, request).read_text()
    assert text.endswith("}\n")
    return [json.loads(part + "\n}") for part in text.split("\n}\n") if part]


def test_the_longest_claim_name_is_shortened_for_the_folder(tmp_path: Path) -> None:
    """Found by the conformance suite: upstream's writer fails with it (File name too long)."""
    writer = MetadataWriter("example.com", _directories(tmp_path), [V1ALPHA1])
    claim = ResourceClaim(metadata=ObjectMeta(name="a" * 253, namespace="default", uid="uid-1"))
    writer.write(claim, [_device("gpu")])
    folder = tmp_path / "plugin" / "dra-device-metadata" / "uid-1"
    assert (folder / "gpu" / "metadata.json").exists()
    writer.remove(ClaimRef("default", "a" * 253, "uid-1"))
    assert not folder.exists()
    assert not list((tmp_path / "cdi").iterdir())
