"""Certificate authority, key pairs and TLS settings.

A server without certificates creates a certificate authority and a serving certificate, in memory or in a
directory where the next start finds them.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubewright.trusted_files import check_directory, read_named_file

from .cipher_suites import set_cipher_suites
from .client_certificates import request_client_certificates


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    files: tuple[Path, Path] | None = field(default=None, compare=False)
    """The files of certificate and key; an `HTTPServer` loads them again when they change."""

    @classmethod
    def from_files(cls, certificate: str | Path, key: str | Path) -> KeyPair:
        """Read a certificate (chain) and its key from files; raises `OSError` with the path, also if another
        user could have written them."""
        files = (Path(certificate), Path(key))
        return cls(read_named_file(files[0]), read_named_file(files[1]), files)

    def write(self, certificate: Path, key: Path) -> None:
        """Write both files; the key is readable by its owner only."""
        write_private(certificate, self.certificate, mode=0o644)
        write_private(key, self.key)


def write_private(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file that only its owner can read, or has another `mode`, atomically.

    Raises `UntrustedFile` if another user could replace it.
    """
    path = Path(path)
    check_directory(path)
    # A new file with a random name: an existing file or symlink is never written to.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


class CertificateAuthority:
    """A certificate authority."""

    def __init__(self, pair: KeyPair) -> None:
        self.pair = pair
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    @classmethod
    def create(cls, name: str = "kubewright-ca", days: int = 3650) -> CertificateAuthority:
        """Create a new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            _builder(subject, subject, key, days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(sign=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(KeyPair(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key)))

    @property
    def certificate(self) -> bytes:
        """The authority's certificate (PEM)."""
        return self.pair.certificate

    def issue(
        self,
        name: str,
        *,
        groups: Iterable[str] = (),
        hosts: Iterable[str] = (),
        server: bool = False,
        days: int = 365,
    ) -> KeyPair:
        """Issue a certificate for a client (`name` is the user) or a server (`hosts`)."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, name),
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            ]
        )
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _builder(subject, self._certificate.subject, key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        names = [_general_name(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = _pem(builder.sign(self._key, hashes.SHA256()))
        return KeyPair(certificate, _key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not sign,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign,
        crl_sign=sign,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_key_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Use a certificate for new connections."""
    with tempfile.TemporaryDirectory() as directory:
        # The ssl module reads certificates from files only.
        certificate, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
        pair.write(certificate, key)
        context.load_cert_chain(certificate, key)


def is_issued_by(certificate: bytes, authority: bytes) -> bool:
    """Whether an authority signed a certificate, directly or through the rest of its chain (PEM)."""
    chain = x509.load_pem_x509_certificates(certificate)
    for each in chain:
        try:
            each.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
            return True
        except (ValueError, TypeError, InvalidSignature):
            continue
    return False


def server_context(
    pair: KeyPair,
    *,
    request_certificates: bool = False,
    http2: bool = False,
    minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
    cipher_suites: Sequence[str] = (),
) -> ssl.SSLContext:
    """Return a TLS context; with `request_certificates`, clients may send one, which is not verified.

    With `http2`, clients can negotiate it. `cipher_suites` are the only ones for TLS 1.2, if given.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = minimum_version
    if cipher_suites:
        set_cipher_suites(context, cipher_suites)
    context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
    load_key_pair(context, pair)
    if request_certificates:
        request_client_certificates(context)
    return context
