import msgspec
from dra_node_agent.drivers.gojson import Checksum, checksum, claim_status, dumps
from dra_shared.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra_shared.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.driverkit.claims import opaque, result


def _slow(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in f"([]uint8)[{' '.join(map(str, data))}]".encode():
        value = ((value ^ byte) * 0x01000193) % 2**32
    return value


_PARTS = st.lists(
    st.sampled_from([b'"status":', b"", b"x", b"\xff\x00", b'b7"},"requests":["gpu"],"pool":"node-1'])
    | st.binary(max_size=40)
)


@given(_PARTS)
def test_the_checksum_is_the_fnv_hash_of_the_bytes_that_go_prints(parts: list[bytes]) -> None:
    data = b"".join(parts)
    assert checksum(data) == _slow(data)


@given(st.lists(_PARTS, max_size=4), _PARTS)
def test_incremental_checksums_equal_the_checksum_of_the_whole_text(
    texts: list[list[bytes]], beginning: list[bytes]
) -> None:
    going_on = Checksum()
    for parts in texts:
        assert going_on.of([*beginning, *parts]) == checksum(b"".join([*beginning, *parts]))


def test_the_checksum_of_a_checkpoint_equals_known_values() -> None:
    assert [checksum(b""), checksum(b"a"), checksum(b'{"checksum":0,"v1":{}}')] == [
        _slow(b""),
        _slow(b"a"),
        1083090442,
    ]


def test_json_strings_escape_the_same_characters_as_in_go() -> None:
    assert dumps({"a": "<b> & \u2028 é"}) == '{"a":"\\u003cb\\u003e \\u0026 \\u2028 é"}'.encode()


def test_a_status_has_the_field_order_of_gos_struct() -> None:
    selector = NodeSelector(
        node_selector_terms=(
            NodeSelectorTerm(
                match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=("n",)),)
            ),
        )
    )
    status = ResourceClaimStatus(
        allocation=AllocationResult(
            allocation_timestamp="2026-01-01T00:00:00Z",
            node_selector=selector,
            devices=DeviceAllocationResult(
                results=(
                    result("gpu-0", admin_access=True, share_id="s", consumed_capacity={"memory": "1Gi"}),
                ),
                config=(opaque({"z": 1, "a": 2}, "r0"),),
            ),
        ),
        reserved_for=(ResourceClaimConsumerReference(resource="pods", name="p", uid="u"),),
    )
    assert dumps(claim_status(status)) == (
        b'{"allocation":{"devices":{"results":[{"request":"r0","driver":"gpu.nvidia.com","pool":"node-0",'
        b'"device":"gpu-0","adminAccess":true,"shareID":"s","consumedCapacity":{"memory":"1Gi"}}],'
        b'"config":[{"source":"FromClaim","requests":["r0"],"opaque":{"driver":"gpu.nvidia.com",'
        b'"parameters":{"z":1,"a":2}}}]},"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":'
        b'"metadata.name","operator":"In","values":["n"]}]}]},"allocationTimestamp":"2026-01-01T00:00:00Z"},'
        b'"reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}'
    )
    assert msgspec.json.decode(dumps(claim_status(ResourceClaimStatus()))) == {}
