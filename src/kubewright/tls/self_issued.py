"""Serving certificates that OpenSSL takes for self-signed, although an authority has signed them.

Go's `x509.CreateCertificate` omits the authority key identifier of a certificate whose subject is the name of
its issuer. Without it, OpenSSL does not search for an issuer with the same name: it reports a self-signed
certificate (error 18), while Go verifies the signature. Tekton and Knative generate such certificates for
their webhooks; extension API servers can have them as well.

`verify_self_issued` makes the checks of Go that OpenSSL has not made, for this one shape: a certificate that
an authority of the bundle has signed directly. A context that trusts exactly this certificate then makes the
connection, so that OpenSSL still checks the name, the dates and the purpose, and that the server has the key.
`SelfIssuedServers` has these contexts.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

K = TypeVar("K", bound=Hashable)

SELF_SIGNED: Final = 18
"""OpenSSL's error for a server certificate that is its own issuer."""
_AUTHORITY_EXTENSIONS: Final = frozenset(("2.5.29.19", "2.5.29.15"))
_LEAF_EXTENSIONS: Final = _AUTHORITY_EXTENSIONS | {"2.5.29.37", "2.5.29.17"}
"""Critical extensions that are verified here or by OpenSSL; others, such as name constraints, are not."""


class VerifiedCertificate(NamedTuple):
    """A certificate that an authority has signed, and until when the authority is valid."""

    pem: bytes
    valid_until: datetime


class SelfIssuedServers(Generic[K]):
    """Contexts for servers whose certificates OpenSSL cannot verify, by a key of the caller.

    `trusting` makes a context that trusts exactly one certificate (PEM).
    """

    def __init__(self, trusting: Callable[[bytes], ssl.SSLContext], *, limit: int = 200) -> None:
        self._trusting = trusting
        self._limit = limit
        self._known: OrderedDict[K, tuple[ssl.SSLContext, datetime]] = OrderedDict()

    def context(self, key: K) -> ssl.SSLContext | None:
        """Return the context of a server that was verified, while its authority is valid."""
        known = self._known.get(key)
        return known[0] if known is not None and known[1] > now() else None

    async def verify(
        self, key: K, problem: Exception, bundle: bytes, address: tuple[str, int], name: str
    ) -> ssl.SSLContext | None:
        """Return a context for a server after an error, if an authority of the bundle signed its certificate.

        A certificate that was verified before may have been replaced, so any error counts for its server.
        """
        is_known = self._known.pop(key, None) is not None
        code = getattr(problem, "verify_code", None)
        if not bundle or not (is_known or code == SELF_SIGNED):
            return None
        verified = verify_self_issued(await fetch_certificate(*address, name), bundle, now)
        if verified is None:
            return None
        context = self._trusting(verified.pem)
        self._known[key] = context, verified.valid_until
        if len(self._known) > self._limit:
            self._known.popitem(last=False)
        return context


def verify_self_issued(
    certificate: bytes, bundle: bytes, clock: Callable[[], datetime]
) -> VerifiedCertificate | None:
    """Return a certificate (DER) with the name of its issuer, if an authority of the bundle has signed it.

    `None` for every other certificate: their verification by OpenSSL counts.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        leaf = x509.load_der_x509_certificate(certificate)
        authorities = x509.load_pem_x509_certificates(bundle)
        if leaf.subject != leaf.issuer or _has_key_identifier(leaf):
            return None
        if _is_weak(leaf) or not _critical_extensions(leaf) <= _LEAF_EXTENSIONS:
            return None
        for authority in authorities:
            if _is_valid_authority(authority, clock()) and _is_signed_by(leaf, authority):
                return VerifiedCertificate(leaf.public_bytes(Encoding.PEM), authority.not_valid_after_utc)
    except ValueError:  # A malformed certificate or extension.
        return None
    return None


def _has_key_identifier(leaf: Certificate) -> bool:
    from cryptography.x509 import AuthorityKeyIdentifier, ExtensionNotFound

    try:
        leaf.extensions.get_extension_for_class(AuthorityKeyIdentifier)
    except ExtensionNotFound:
        return False
    return True


def _critical_extensions(certificate: Certificate) -> set[str]:
    return {each.oid.dotted_string for each in certificate.extensions if each.critical}


def _is_weak(certificate: Certificate) -> bool:
    """Whether the signature has a hash that Go rejects."""
    algorithm = certificate.signature_hash_algorithm
    return algorithm is not None and algorithm.name in ("md5", "sha1")


def _is_valid_authority(authority: Certificate, now: datetime) -> bool:
    from cryptography.x509 import BasicConstraints, ExtensionNotFound, KeyUsage

    if not authority.not_valid_before_utc <= now <= authority.not_valid_after_utc:
        return False
    if not _critical_extensions(authority) <= _AUTHORITY_EXTENSIONS:
        return False
    try:
        if not authority.extensions.get_extension_for_class(BasicConstraints).value.ca:
            return False
    except ExtensionNotFound:
        return False
    try:
        return authority.extensions.get_extension_for_class(KeyUsage).value.key_cert_sign
    except ExtensionNotFound:
        return True


def _is_signed_by(leaf: Certificate, authority: Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        leaf.verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


async def fetch_certificate(host: str, port: int, name: str) -> bytes:
    """Return the certificate (DER) that a server presents, without verification; raises `OSError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    try:
        data: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return data
    finally:
        writer.close()


def now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)
