"""Client certificates: the common name is the user, the organizations are the groups.

The TLS handshake proves only that the client has the private key (`kubewright.tls.client_certificates`). Each
authenticator checks that *its* authority issued the certificate, so that a front proxy's certificate does not
identify a user and vice versa, and that it is valid now.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import Unauthorized
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.messages import HTTPRequest

if TYPE_CHECKING:
    from cryptography import x509


class PeerCertificate:
    """The client certificate of a connection; parsed once per connection."""

    def __init__(self, der: bytes) -> None:
        self.der = der
        self._issued: dict[int, tuple[Sequence[x509.Certificate], bool]] = {}

    @cached_property
    def certificate(self) -> x509.Certificate:
        """The parsed certificate."""
        from cryptography import x509

        return x509.load_der_x509_certificate(self.der)

    @cached_property
    def _validity(self) -> tuple[float, float]:
        certificate = self.certificate
        return certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()

    @property
    def is_valid(self) -> bool:
        """Whether the current time is in the validity period; connections outlast it."""
        try:
            begin, end = self._validity
        except ValueError:  # OpenSSL parses more than `cryptography`
            return False
        return begin <= time.time() <= end

    @cached_property
    def common_name(self) -> str:
        """The subject's common name."""
        from cryptography.x509.oid import NameOID

        return _text(self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME))

    @cached_property
    def organizations(self) -> tuple[str, ...]:
        """The subject's organizations."""
        from cryptography.x509.oid import NameOID

        attributes = self.certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        return tuple(str(attribute.value) for attribute in attributes)

    @cached_property
    def for_clients(self) -> bool:
        """Whether the extended key usage allows client authentication."""
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        try:
            usage = self.certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        except x509.ExtensionNotFound:
            return True
        return ExtendedKeyUsageOID.CLIENT_AUTH in usage or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage

    def issued_by(self, authorities: Sequence[x509.Certificate]) -> bool:
        """Whether it is valid and one of the authorities signed it (or it is one of them)."""
        if not self.is_valid:
            return False
        # The authorities are stored with the result, so that their id cannot be reused.
        known = self._issued.get(id(authorities))
        if known is None:
            signed = any(_signed_by(self.certificate, each) for each in authorities)
            known = self._issued[id(authorities)] = (authorities, signed)
        return known[1]


def _text(attributes: Sequence[Any]) -> str:
    return str(attributes[0].value) if attributes else ""


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    if certificate == authority:
        return True
    if (
        not authority.not_valid_before_utc.timestamp()
        <= time.time()
        <= authority.not_valid_after_utc.timestamp()
    ):
        return False
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:
        return False
    return True


def load_authorities(pem: bytes) -> list[x509.Certificate]:
    """Load the certificates of a PEM bundle; raises for an empty or invalid bundle."""
    from cryptography import x509

    return x509.load_pem_x509_certificates(pem)


class X509Authenticator:
    """Authenticates client certificates that one of `authorities` (PEM) has issued."""

    def __init__(self, authorities: bytes) -> None:
        self.authorities = load_authorities(authorities)
        self._users: dict[bytes, User] = {}

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Return the user of the connection's certificate; raises `Unauthorized` for one that is not valid
        or not issued by the authorities."""
        peer: PeerCertificate | None = request.peer_certificate
        if peer is None:
            return None
        user = self._users.get(peer.der) if peer.is_valid else None
        if user is not None:
            return user
        if not peer.issued_by(self.authorities) or not peer.for_clients or not peer.common_name:
            raise Unauthorized("Unauthorized")
        credential = f"X509SHA256={hashlib.sha256(peer.der).hexdigest()}"
        extra = {"authentication.kubernetes.io/credential-id": (credential,)}
        user = User(peer.common_name, peer.organizations, "", extra).with_group("system:authenticated")
        if len(self._users) > 1000:
            self._users.clear()
        self._users[peer.der] = user
        return user
