"""The address of the API server in the endpoints of the service `kubernetes`, and in its certificate."""

from __future__ import annotations

import ipaddress

import pytest
from cryptography import x509
from tests.controlplane.path_client import PathClient

from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.credentials.plane_credentials import advertised_address, serving_hosts


@pytest.mark.parametrize(
    ("bind", "given", "expected"),
    [
        ("127.0.0.1", "", "127.0.0.1"),
        ("172.30.0.2", "", "172.30.0.2"),
        ("0.0.0.0", "172.30.0.2", "172.30.0.2"),
        ("::1", "", "::1"),
        ("localhost", "", "127.0.0.1"),
    ],
)
def test_an_address_that_is_known(bind: str, given: str, expected: str) -> None:
    assert advertised_address(bind, given) == expected
    assert expected in serving_hosts(bind, ["10.0.0.0/24"], (), expected)


def test_a_name_is_rejected() -> None:
    with pytest.raises(ValueError, match='--advertise-address "nonsense" is not an IP address'):
        ControlPlane(port=None, advertise_address="nonsense")


def test_any_address_is_that_of_the_machine() -> None:
    for bind in ("0.0.0.0", "::"):
        address = ipaddress.ip_address(advertised_address(bind))
        assert not address.is_unspecified
        assert address.version == ipaddress.ip_address(bind).version


async def test_the_certificate_has_the_advertised_address() -> None:
    async with ControlPlane(advertise_address="192.0.2.7") as plane:
        client = PathClient(plane.server, SYSTEM, user_agent="test")
        endpoints = await client.get("/api/v1/namespaces/default/endpoints/kubernetes")
        (subset,) = endpoints["subsets"]
        assert [each["ip"] for each in subset["addresses"]] == ["192.0.2.7"]
        certificate = x509.load_pem_x509_certificate(plane.credentials.serving.certificate)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert ipaddress.ip_address("192.0.2.7") in names.get_values_for_type(x509.IPAddress)
