"""Test that registrations of drivers are validated as in Kubernetes 1.38."""

import pytest
from dra_node_agent.kubelet.dra.connection import DriverError
from dra_node_agent.kubelet.dra.connections import DriverConnections
from dra_node_agent.kubelet.dra.registrationchecks import check_driver_name, check_endpoint
from dra_shared.clock import FakeClock
from dra_shared.version import V1_37, V1_38

from tests.support.cases import each_case
from tests.support.fakeapi import FakeApi

_SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"


@pytest.mark.parametrize("name", ["gpu.example.com", "GPU.example.com"])
def test_names_of_drivers_are_accepted_in_any_case(name: str) -> None:
    check_driver_name(name)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("", "invalid DRA driver name: driverName: Required value"),
        ("a_b", f'invalid DRA driver name: driverName: Invalid value: "a_b": {_SUBDOMAIN}'),
        ("a" * 64, "invalid DRA driver name: driverName: Too long: may not be more than 63 bytes"),
        (
            "_" * 64,
            "invalid DRA driver name: [driverName: Too long: may not be more than 63 bytes, driverName: ",
        ),
    ],
)
def test_invalid_names_of_drivers_are_refused(name: str, wanted: str) -> None:
    with pytest.raises(DriverError) as error:
        check_driver_name(name)
    assert str(error.value).startswith(wanted)


@pytest.mark.parametrize("endpoint", ["/a/dra.sock", "/a b/dra.sock", "/" + "a" * 106])
def test_valid_endpoint_paths_are_accepted(endpoint: str) -> None:
    check_endpoint(endpoint)


@each_case(
    ("endpoint", "wanted"),
    [
        ("", "empty DRA plugin endpoint"),
        ("a/dra.sock", 'DRA plugin endpoint "a/dra.sock" must be an absolute path'),
        ("/" + "a" * 107, "must not be longer than 108 bytes"),
        ("/a/%2e%2e/dra.sock", "must be a plain path"),
        ("//host/dra.sock", "must be a plain path"),
        ("/dra.sock?a", "must be a plain path"),
    ],
)
def test_invalid_endpoints_are_rejected(endpoint: str, wanted: str) -> None:
    with pytest.raises(DriverError) as error:
        check_endpoint(endpoint)
    assert wanted in str(error.value)


def test_registrations_are_checked_since_1_38() -> None:
    for version, is_refused in ((V1_37, False), (V1_38, True)):
        connections = DriverConnections("node", FakeApi().client(), FakeClock(), kubernetes=version)
        try:
            connections.validate("gpu.example.com", "dra.sock", ["v1.DRAPlugin"])
        except DriverError:
            assert is_refused
        else:
            assert not is_refused
