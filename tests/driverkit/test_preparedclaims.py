"""The checkpoint and the CDI files of prepared claims, with a checkpoint format that only this test uses."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from dra_driverkit.cdi import CdiDevice, ContainerEdits
from dra_driverkit.errors import CheckpointError
from dra_driverkit.files import full_disk
from dra_driverkit.preparedclaims import PreparedClaims


class _Lines:
    """A checkpoint format with one line for each claim."""

    def decode(self, data: bytes) -> dict[str, str]:
        if b"=" not in data and data:
            raise CheckpointError("checkpoint is corrupted")
        pairs = (line.partition("=") for line in data.decode().splitlines())
        return {uid: state for uid, _, state in pairs}

    def encode(self, claims: Mapping[str, str]) -> bytes:
        return "".join(f"{uid}={state}\n" for uid, state in claims.items()).encode()


def _claims(folder: Path, *, restores: bool = False) -> PreparedClaims[str]:
    return PreparedClaims(
        folder / "checkpoint", _Lines(), folder / "cdi", "example.com/claim", restores=restores
    )


def test_two_driver_instances_read_each_others_prepared_claims(tmp_path: Path) -> None:
    one, two = _claims(tmp_path), _claims(tmp_path)
    one.replace({"a": "ready"})
    two.put("b", "started")
    assert one.claims() == {"a": "ready", "b": "started"}
    one.drop("a", "unknown")
    assert two.claims() == {"b": "started"}


def test_claims_are_unchanged_if_the_disk_is_full(tmp_path: Path) -> None:
    claims = _claims(tmp_path)
    claims.replace({"a": "ready"})
    with full_disk(tmp_path), pytest.raises(OSError, match="No space left"):
        claims.put("b", "ready")
    assert claims.claims() == {"a": "ready"}


def test_the_error_for_a_damaged_checkpoint_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("{")
    with pytest.raises(CheckpointError, match=f"^{tmp_path}/checkpoint: checkpoint is corrupted$"):
        _claims(tmp_path).claims()


def test_deleted_checkpoint_is_restored_only_on_request(tmp_path: Path) -> None:
    for restores in (True, False):
        claims = _claims(tmp_path, restores=restores)
        claims.replace({"a": "ready"})
        (tmp_path / "checkpoint").unlink()
        if restores:
            assert claims.claims() == {"a": "ready"}
            assert (tmp_path / "checkpoint").read_text() == "a=ready\n"
        else:
            with pytest.raises(FileNotFoundError):
                claims.claims()


def test_cdi_files_of_unknown_claims_are_removed(tmp_path: Path) -> None:
    claims = _claims(tmp_path)
    claims.replace({"a": "ready"})
    devices = [CdiDevice("x", container_edits=ContainerEdits(env=("A=1",)))]
    for uid in ("a", "b", "common"):
        claims.write_spec(uid, devices)
    claims.remove_unknown_specs("common")
    assert [claims.has_spec(uid) for uid in ("a", "b", "common")] == [True, False, True]
    claims.remove_spec("a")
    assert not claims.has_spec("a")
    assert claims.cdi_id("x") == "example.com/claim=x"
