"""Certificates with the name of their issuer and without its key identifier, as Knative and Tekton have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVICE = "hook.default.svc"
DAY = timedelta(days=1)


class Shape(NamedTuple):
    """What a certificate and its authority look like; by default a certificate that Go accepts."""

    name: str = SERVICE
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH
    is_expired: bool = False
    is_self_signed: bool = False
    """Whether the key of the certificate signed it."""
    authority_is_ca: bool = True
    authority_signs: bool = True
    authority_is_expired: bool = False
    constraint: str = ""
    """DNS name that the authority is limited to."""


def make_certificates(shape: Shape) -> tuple[bytes, bytes, bytes]:
    """Return the authority, the certificate and its key (PEM), as knative.dev/pkg generates them."""
    now = datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "knative.dev")])
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def builder(public: ec.EllipticCurvePublicKey, *, expired: bool) -> x509.CertificateBuilder:
        end = now - DAY if expired else now + DAY
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * DAY)
            .not_valid_after(end)
        )

    def key_usage(signs: bool) -> x509.KeyUsage:
        fields = dict.fromkeys(
            (
                "content_commitment",
                "key_encipherment",
                "data_encipherment",
                "key_agreement",
                "crl_sign",
                "encipher_only",
                "decipher_only",
            ),
            False,
        )
        return x509.KeyUsage(digital_signature=True, key_cert_sign=signs, **fields)

    made = builder(authority_key.public_key(), expired=shape.authority_is_expired)
    made = made.add_extension(x509.BasicConstraints(shape.authority_is_ca, None), critical=True)
    made = made.add_extension(key_usage(shape.authority_signs), critical=True)
    if shape.constraint:
        made = made.add_extension(x509.NameConstraints([x509.DNSName(shape.constraint)], None), critical=True)
    authority = made.sign(authority_key, hashes.SHA256())
    made = builder(key.public_key(), expired=shape.is_expired)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(shape.name)]), critical=False)
    made = made.add_extension(x509.ExtendedKeyUsage([shape.usage]), critical=False)
    leaf = made.sign(key if shape.is_self_signed else authority_key, hashes.SHA256())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return authority.public_bytes(Encoding.PEM), leaf.public_bytes(Encoding.PEM), pem


REJECTED = (
    Shape(is_self_signed=True),
    Shape(is_expired=True),
    Shape(authority_is_expired=True),
    Shape(authority_is_ca=False),
    Shape(authority_signs=False),
    Shape(constraint="example.com"),
    Shape(name="other.default.svc"),
    Shape(usage=ExtendedKeyUsageOID.CLIENT_AUTH),
)
"""Certificates that must not be accepted."""
