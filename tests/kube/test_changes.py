"""The history of devices, computed from changes of slices and claims."""

from typing import cast

import pytest
from dra_kube.changes import Wanted, changes, lines
from dra_kube.reader import Reader
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

DEVICE = Wanted(["device/pool-0/gpu-1"], "default", "", "", 500, False)


class FakeReader:
    """Responds with these changes, two on each page."""

    server = "http://fake"

    def __init__(self, **kinds: list[JsonObject]) -> None:
        self._kinds = kinds

    def json(self, path: str, params: dict[str, str]) -> JsonObject:
        """Return a page."""
        begin = int(params["from"] or 0)
        left = [one for one in self._kinds.get(path.rpartition("/")[2], []) if int(one["revision"]) > begin]
        return {"kind": "ChangeList", "items": left[:2], "more": len(left) > 2}


def _slice(revision: int, type: str, *devices: JsonObject, pool: str = "pool-0") -> JsonObject:
    spec = {"pool": {"name": pool}, "devices": list(devices)}
    return {"revision": str(revision), "type": type, "name": "s", "user": "u", "object": {"spec": spec}}


def _claim(revision: int, type: str, *devices: str) -> JsonObject:
    results = [{"pool": "pool-0", "device": device} for device in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    claim = {"revision": str(revision), "type": type, "namespace": "ns", "name": "c", "user": "u"}
    return {**claim, "object": {"status": status}}


def _history_lines(**kinds: list[JsonObject]) -> list[str]:
    return [*lines(changes(cast(Reader, FakeReader(**kinds)), DEVICE))]


def test_device_history_shows_when_a_device_was_published_changed_and_withdrawn() -> None:
    healthy, hot = {"name": "gpu-1", "x": {"y": 1}}, {"name": "gpu-1", "x": {"y": 2}}
    other = {"name": "gpu-0"}
    about = "device/pool-0/gpu-1"
    assert _history_lines(
        resourceslices=[
            _slice(1, "ADDED", other),
            _slice(2, "MODIFIED", other, healthy),
            _slice(3, "MODIFIED", healthy),
            _slice(4, "MODIFIED", hot),
            _slice(5, "MODIFIED", hot, pool="pool-1"),
            _slice(6, "DELETED", hot),
        ]
    ) == [
        f"revision 2  {about}  created by u",
        f"revision 4  {about}  changed by u",
        "    .x.y: 1 → 2",
        f"revision 6  {about}  deleted by u",
    ]


def test_device_history_shows_when_a_device_was_allocated_and_released() -> None:
    about = "device/pool-0/gpu-1"
    assert _history_lines(
        resourceclaims=[
            _claim(1, "ADDED"),
            _claim(2, "MODIFIED", "gpu-0"),
            _claim(3, "MODIFIED", "gpu-1", "gpu-0"),
            _claim(4, "MODIFIED", "gpu-1"),
            _claim(5, "MODIFIED"),
            _claim(6, "MODIFIED", "gpu-1"),
            _claim(7, "DELETED", "gpu-1"),
        ]
    ) == [
        f"revision 3  {about}  allocated to claim ns/c by u",
        f"revision 5  {about}  released by claim ns/c by u",
        f"revision 6  {about}  allocated to claim ns/c by u",
        f"revision 7  {about}  released by claim ns/c by u",
    ]


def test_long_values_in_device_history_are_truncated() -> None:
    change = {
        "revision": "1",
        "what": "pod/p",
        "type": "MODIFIED",
        "changes": [{"path": ".x", "new": "y" * 500}],
    }
    _, field = lines([change])
    assert field.endswith("…")
    assert len(field) < 120


def test_history_of_an_api_server_other_than_dralabs_is_an_error() -> None:
    class Other(FakeReader):
        def json(self, path: str, params: dict[str, str]) -> JsonObject:
            return {"kind": "Pod"}

    with pytest.raises(UserError, match="keeps no history"):
        changes(cast(Reader, Other()), DEVICE)
