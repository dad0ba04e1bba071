from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from dra_driverkit.cdi import (
    CdiDevice,
    ContainerEdits,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
    SpecError,
    UnresolvableError,
    minimum_version,
    parse_qualified_name,
    qualified_name,
    read_spec,
    remove_spec,
    remove_unknown_specs,
    resolve,
    transient_name,
    write_spec,
)
from dra_driverkit.cdi.spec import to_document

from tests.driverkit.cdi.schema import check_file

_ENV = ContainerEdits(env=("A=1",))


def _spec(*devices: CdiDevice, kind: str = "acme.com/gpu", **fields: Any) -> Spec:
    return Spec(kind, devices or (CdiDevice("gpu0", container_edits=_ENV),), **fields)


def _device(edits: ContainerEdits, name: str = "gpu0") -> CdiDevice:
    return CdiDevice(name, container_edits=edits)


class TestVersion:
    @pytest.mark.parametrize(
        ("spec", "version"),
        [
            (_spec(), "0.3.0"),
            (_spec(container_edits=ContainerEdits(mounts=(Mount("/a", "/b", type="tmpfs"),))), "0.4.0"),
            (_spec(_device(_ENV, "0gpu")), "0.5.0"),
            (_spec(_device(ContainerEdits(device_nodes=(DeviceNode("/dev/a", "/dev/b"),)))), "0.5.0"),
            (_spec(kind="acme.com/gpu.large"), "0.6.0"),
            (_spec(annotations={"a": "b"}), "0.6.0"),
            (_spec(CdiDevice("gpu0", {"a": "b"}, _ENV)), "0.6.0"),
            (_spec(_device(ContainerEdits(additional_gids=(1,)))), "0.7.0"),
            (_spec(_device(ContainerEdits(intel_rdt=IntelRdt("c")))), "0.7.0"),
            (_spec(_device(ContainerEdits(intel_rdt=IntelRdt(enable_monitoring=True)))), "1.1.0"),
            (_spec(_device(ContainerEdits(net_devices=(NetDevice("eth1", "net0"),)))), "1.1.0"),
        ],
    )
    def test_a_spec_gets_the_lowest_cdi_version_that_can_express_it(
        self, spec: Spec, version: str, tmp_path: Path
    ) -> None:
        assert minimum_version(spec) == version
        assert check_file(write_spec(tmp_path, "x", spec))["cdiVersion"] == version

    def test_a_spec_with_a_version_that_is_too_low_is_rejected(self) -> None:
        spec = _spec(annotations={"a": "b"}, cdi_version="0.5.0")
        with pytest.raises(SpecError, match=r"the spec version must be at least v0\.6\.0"):
            spec.validate()


class TestValidation:
    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            (_spec(kind="nokind"), "invalid kind"),
            (_spec(kind="acme_/gpu"), "invalid vendor"),
            (_spec(kind="acme.com/-gpu"), "invalid class"),
            (_spec(_device(_ENV, "a b")), "invalid device name"),
            (_spec(_device(_ENV), _device(_ENV)), "multiple devices"),
            (_spec(_device(ContainerEdits())), "empty container edits"),
            (_spec(_device(ContainerEdits(env=("A",)))), "invalid environment variable"),
            (_spec(_device(ContainerEdits(device_nodes=(DeviceNode(""),)))), "empty"),
            (_spec(_device(ContainerEdits(device_nodes=(DeviceNode("/a", type="x"),)))), "invalid type"),
            (
                _spec(_device(ContainerEdits(device_nodes=(DeviceNode("/a", permissions="q"),)))),
                "permissions",
            ),
            (_spec(_device(ContainerEdits(mounts=(Mount("", "/b"),)))), "invalid mount"),
            (_spec(_device(ContainerEdits(hooks=(Hook("start", "/x"),)))), "invalid hook name"),
            (_spec(_device(ContainerEdits(hooks=(Hook("poststop", ""),)))), "empty path"),
            (_spec(_device(ContainerEdits(net_devices=(NetDevice("", "a"),)))), "net device"),
            (Spec("acme.com/gpu", ()), "no devices"),
        ],
    )
    def test_an_invalid_spec_is_not_written(self, spec: Spec, message: str, tmp_path: Path) -> None:
        with pytest.raises(SpecError, match=message):
            write_spec(tmp_path, "x", spec)
        assert list(tmp_path.iterdir()) == []


class TestFiles:
    def test_all_fields_are_written_and_read(self, tmp_path: Path) -> None:
        edits = ContainerEdits(
            env=("A=1", "B=x=y"),
            device_nodes=(DeviceNode("/dev/a", "/dev/b", "c", 1, 2, 0o666, "rw", 3, 4),),
            hooks=(Hook("createContainer", "/bin/h", ("h", "--x"), ("E=1",), 5),),
            mounts=(Mount("/h", "/c", ("ro",), "bind"),),
            intel_rdt=IntelRdt("c", "l3", "mb", ("s",), True),
            additional_gids=(7,),
            net_devices=(NetDevice("eth0", "net1"),),
        )
        spec = _spec(CdiDevice("gpu0", {"k": "v"}, edits), container_edits=edits, annotations={"a": "b"})
        path = write_spec(tmp_path, "full", spec)
        check_file(path)
        written = msgspec.structs.replace(spec, cdi_version="1.1.0")
        assert read_spec(path) == written
        # The text differs, so it is parsed, but it means the same.
        with path.open("a") as file:
            file.write("# by hand")
        assert read_spec(path) == written

    def test_a_spec_with_common_edits_is_written_as_if_dumped_in_one_piece(self, tmp_path: Path) -> None:
        spec = _spec(_device(_ENV), container_edits=ContainerEdits(mounts=(Mount("/h", "/c", ("ro",)),)))
        spec = msgspec.structs.replace(spec, cdi_version=minimum_version(spec))
        whole = yaml.safe_dump(to_document(spec), sort_keys=False, width=200)
        assert write_spec(tmp_path, "x", spec).read_text() == f"---\n{whole}"

    def test_a_file_that_was_changed_by_hand_is_read(self, tmp_path: Path) -> None:
        path = write_spec(tmp_path, "x", _spec(_device(_ENV)))
        path.write_text(path.read_text().replace("gpu0", "gpu1"))
        assert [device.name for device in read_spec(path).devices] == ["gpu1"]

    def test_names_of_spec_files_and_devices_equal_those_of_the_cdi_library(self) -> None:
        assert transient_name("k8s.gpu.nvidia.com", "claim", "uid-1") == "k8s.gpu.nvidia.com-claim_uid-1"
        assert qualified_name("a.b", "c", "d") == "a.b/c=d"
        assert parse_qualified_name("a.b/c=d") == ("a.b", "c", "d")

    @pytest.mark.parametrize("name", ["gpu", "a/b", "a=b", "a/b=", "/b=c", "a/=c", "a/b=c d", "1a/b=c"])
    def test_malformed_cdi_device_names_are_rejected(self, name: str) -> None:
        with pytest.raises(ValueError, match="device"):
            parse_qualified_name(name)

    def test_a_spec_is_replaced_and_removed(self, tmp_path: Path) -> None:
        write_spec(tmp_path / "cdi", "x", _spec())
        write_spec(tmp_path / "cdi", "x", _spec(_device(_ENV, "gpu1")))
        assert [path.name for path in (tmp_path / "cdi").iterdir()] == ["x.yaml"]
        remove_spec(tmp_path / "cdi", "x")
        remove_spec(tmp_path / "cdi", "x")
        assert list((tmp_path / "cdi").iterdir()) == []

    def test_specs_of_unknown_claims_and_unfinished_files_are_removed(self, tmp_path: Path) -> None:
        names = ["acme.com-claim_a.yaml", "acme.com-claim_b.yaml", ".acme.com-claim_c.x1.tmp"]
        others = ["other.com-claim_b.yaml", "acme.com-device_b.yaml", ".other.com-claim_c.x1.tmp"]
        for name in (*names, *others):
            (tmp_path / name).touch()
        remove_unknown_specs(tmp_path, "acme.com", "claim", {"a"})
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([names[0], *others])

    def test_a_failed_write_of_a_spec_leaves_no_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: Any) -> None:
            raise OSError("disk on fire")

        monkeypatch.setattr("os.replace", refuse)
        with pytest.raises(OSError, match="disk on fire"):
            write_spec(tmp_path, "x", _spec())
        assert list(tmp_path.iterdir()) == []


class TestResolve:
    def test_common_edits_are_applied_once_and_before_their_devices(self, tmp_path: Path) -> None:
        common = ContainerEdits(env=("COMMON=1",))
        devices = [_device(ContainerEdits(env=(f"DEVICE={n}",)), f"gpu{n}") for n in range(2)]
        write_spec(tmp_path, "acme.com-gpu_1", _spec(*devices, container_edits=common))
        ids = ["acme.com/gpu=gpu1", "acme.com/gpu=gpu0", "acme.com/gpu=gpu1"]
        assert resolve(ids, tmp_path).env == ("COMMON=1", "DEVICE=1", "DEVICE=0")
        assert resolve(ids, tmp_path).environment() == {"COMMON": "1", "DEVICE": "0"}

    def test_no_edits_are_applied_without_devices(self, tmp_path: Path) -> None:
        assert resolve([], tmp_path) == ContainerEdits()

    def test_the_error_names_all_cdi_devices_that_are_missing(self, tmp_path: Path) -> None:
        write_spec(tmp_path, "x", _spec())
        with pytest.raises(UnresolvableError, match=r"unresolvable CDI devices acme.com/gpu=gpu7, nonsense"):
            resolve(["acme.com/gpu=gpu0", "acme.com/gpu=gpu7", "nonsense"], tmp_path)

    def test_json_specs_and_those_of_other_vendors_are_read_and_invalid_files_skipped(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "a-broken.yaml").write_text("kind: [")
        (tmp_path / "b-invalid.json").write_text(
            '{"cdiVersion": "0.3.0", "kind": "acme.com/gpu", "devices": []}'
        )
        (tmp_path / "vendor.json").write_text(
            '{"cdiVersion": "0.3.0", "kind": "acme.com/gpu", '
            '"devices": [{"name": "gpu0", "containerEdits": {"env": ["A=1"]}}]}'
        )
        (tmp_path / "notes.txt").write_text("not a spec")
        assert resolve(["acme.com/gpu=gpu0"], tmp_path).env == ("A=1",)
