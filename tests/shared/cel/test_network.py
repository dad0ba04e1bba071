"""Test which addresses and networks are rejected, with Go's error texts."""

import pytest
from dra_shared.cel.network import AddressError, Cidr, Ip, parse_address

from tests.support.cases import each_case


@each_case(
    ("text", "reason"),
    [
        ("", "unable to parse IP"),
        ("%", "missing IPv6 address"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.", 'IPv4 field must have at least one digit (at ".")'),
        ("1..2.3", 'IPv4 field must have at least one digit (at ".2.3")'),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("01.2.3.4", "IPv4 field has octet with leading zero"),
        ("256.1.1.1", "IPv4 field has value >255"),
        ("1.2.3.4:80", 'unexpected character (at ":80")'),
        ("::1%", "zone must be a non-empty string"),
        ("1:", 'colon must be followed by more characters (at ":")'),
        (":1", 'each colon-separated field must have at least one digit (at ":1")'),
        ("::g", 'each colon-separated field must have at least one digit (at "g")'),
        (":::", 'each colon-separated field must have at least one digit (at ":")'),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("12345::1", 'each group must have 4 or less digits (at "12345::1")'),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
        ("1:2", "address string too short"),
        ("::1.2.3", "IPv4 address too short"),
        ("1.2.3.x", 'unexpected character (at "x")'),
        ("fe80::1x", 'unexpected character, want colon (at "x")'),
        ("1:1.2.3.4", 'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")'),
    ],
)
def test_invalid_addresses_have_the_errors_of_go(text: str, reason: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_address(text)
    assert str(caught.value) == f'ParseAddr("{text}"): {reason}'


@each_case(
    ("text", "shown"),
    [
        ("::", "::"),
        ("1::", "1::"),
        ("::1", "::1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("::1.2.3.4", "::102:304"),
        ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ("0.0.0.0", "0.0.0.0"),
    ],
)
def test_addresses_are_formatted_as_in_go(text: str, shown: str) -> None:
    assert str(Ip.parse(text)) == shown


@each_case(
    ("text", "reason"),
    [
        ("10.0.0.0", "no '/'"),
        ("x/8", 'ParseAddr("x"): unable to parse IP'),
        ("10.0.0.0/33", "prefix length out of range"),
        ("1.2.3.4/08", 'bad bits after slash: "08"'),
        ("1.2.3.4/", 'bad bits after slash: ""'),
        ("1.2.3.4/99999999999999999999", 'bad bits after slash: "99999999999999999999"'),
        ("1.2.3.4/8/8", 'ParseAddr("1.2.3.4/8"): unexpected character (at "/8")'),
        ("fe80::%a/64", "IPv6 zones cannot be present in a prefix"),
    ],
)
def test_invalid_networks_have_the_errors_of_go(text: str, reason: str) -> None:
    with pytest.raises(AddressError) as caught:
        Cidr.parse(text)
    start = "network address parse error during conversion from string: netip.ParsePrefix"
    assert str(caught.value) == f'{start}("{text}"): {reason}'
