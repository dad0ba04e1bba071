"""Test that CBOR of other encoders is read, and that errors have the texts of fxamacker/cbor, which upstream uses."""

from typing import Any

import pytest
from dra_apiserver import cbor

from tests.support.cases import each_case


@each_case(
    ("data", "expected"),
    [
        (b"\xd9\xd9\xf7\xa1\x44name\x43foo", {"name": "foo"}),
        (b"\xa1\x64name\x63foo", {"name": "foo"}),
        (b"\xbf\x61a\x9f\x01\x02\xff\xff", {"a": [1, 2]}),
        (b"\x7f\x61a\x61b\xff", "ab"),
        (b"\x5f\x41a\x58\x01b\xff", "ab"),
        (b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff", -(1 << 63)),
        (b"\xf9\x3c\x00", 1.0),
        (b"\xfa\x47\xc3\x50\x00", 100000.0),
        (b"\xd6\x43abc", "YWJj"),
        (b"\xd5\x42\xff\xff", "__8"),
        (b"\xd7\x42\xff\xff", "ffff"),
        (b"\xd6\x82\x41a\xd7\x41a", ["YQ==", "61"]),
        (b"\x41\xff", "\ufffd"),
        (b"\xc0\x74" + b"2013-03-21T20:04:00Z", "2013-03-21T20:04:00Z"),
        (b"\xc1\x1a\x51\x4b\x67\xb0", "2013-03-21T20:04:00Z"),
        (b"\xc1\xfb\x41\xd4\x52\xd9\xec\x20\x00\x00", "2013-03-21T20:04:00.5Z"),
        (b"\xd8\x20\x61a", "a"),
    ],
)
def test_items_are_decoded_to_json_values(data: bytes, expected: Any) -> None:
    found = cbor.decode(data)
    assert (found, type(found)) == (expected, type(expected))


_NOT_ACCEPTED = "cbor: data item of cbor type {} is not accepted by protocol: "
_PRIMITIVE = _NOT_ACCEPTED.format("primitives")


@each_case(
    ("data", "message"),
    [
        (b"", "EOF"),
        (b"\xa1\x41a", "unexpected EOF"),
        (b"\x42a", "unexpected EOF"),
        (b"\x19\x01", "unexpected EOF"),
        (b"\xf6\xf6\xf6", "cbor: 2 bytes of extraneous data starting at index 1"),
        (b"\xff", 'cbor: unexpected "break" code'),
        (b"\xbf\x61a\xff", 'cbor: unexpected "break" code'),
        (b"\x1f", "cbor: invalid additional information 31 for type positive integer"),
        (b"\x5c", "cbor: invalid additional information 28 for type byte string"),
        (b"\x5f\x61a\xff", "cbor: wrong element type UTF-8 text string for indefinite-length byte string"),
        (b"\x5f\x5f\xff\xff", "cbor: indefinite-length byte string chunk is not definite-length"),
        (b"\xf8\x10", "cbor: invalid simple value 16 for type primitives"),
        (b"\xf9\x7e\x00", _PRIMITIVE + "floating-point NaN"),
        (b"\xf9\x7c\x00", _PRIMITIVE + "floating-point infinity"),
        (b"\xc2\x41a", _NOT_ACCEPTED.format("tag") + "bignum"),
        (b"\xba\x00\x20\x00\x01", "cbor: exceeded max number of key-value pairs 2097152 for CBOR map"),
        (b"\x81" * 20_000 + b"\x01", "cbor: exceeded max nested level 10000"),
    ],
)
def test_ill_formed_cbor_items_are_rejected(data: bytes, message: str) -> None:
    with pytest.raises(cbor.IllFormed) as refused:
        cbor.decode(data)
    assert str(refused.value) == message


@each_case(
    ("data", "message"),
    [
        (b"\xa2\x41a\x01\x61a\x02", 'cbor: found duplicate map key "a" at map element index 1'),
        (b"\xa1\x01\x02", "cbor: cannot unmarshal positive integer into Go value of type string"),
        (
            b"\x1b" + b"\xff" * 8,
            "cbor: cannot unmarshal positive integer into Go value of type int64 "
            "(18446744073709551615 overflows Go's int64)",
        ),
        (b"\x61\xff", "cbor: invalid UTF-8 string"),
        (b"\xf7", _PRIMITIVE + "simple value 23 is not recognized"),
        (b"\xf0", _PRIMITIVE + "simple value 16 is not recognized"),
        (b"\xc0\x01", "cbor: tag number 0 must be followed by text string, got positive integer"),
        (b"\xc1\x61a", "cbor: tag number 1 must be followed by integer or floating-point number, "
                       "got UTF-8 text string"),
        (b"\xc0\x61a", 'cbor: cannot set a for time.Time: parsing time "a" as "2006-01-02T15:04:05Z07:00": '
                       'cannot parse "a" as "2006"'),
    ],
)  # fmt: skip
def test_unsupported_cbor_items_are_rejected(data: bytes, message: str) -> None:
    with pytest.raises(cbor.CborError) as refused:
        cbor.decode(data)
    assert (type(refused.value), str(refused.value)) == (cbor.CborError, message)


def test_ill_formed_bytes_are_reported_before_unsupported_items() -> None:
    with pytest.raises(cbor.IllFormed, match="unexpected EOF"):
        cbor.decode(b"\x83\xa2\x41a\x01\x41a\x02\x01")


def test_a_duplicate_key_error_tells_if_the_key_is_in_the_outermost_map() -> None:
    for data, outermost in ((b"\xa2\x41a\x01\x41a\x02", True), (b"\xa1\x41b\xa2\x41a\x01\x41a\x02", False)):
        with pytest.raises(cbor.CborError) as refused:
            cbor.decode(data)
        assert refused.value.outermost is outermost
