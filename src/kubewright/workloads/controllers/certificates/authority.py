"""Certificates from certificate requests, signed by a certificate authority."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from .requests import InvalidRequest

MAX_SECONDS = 365 * 86_400
MIN_SECONDS = 600
BACKDATE = timedelta(minutes=5)
SHORT_SECONDS = 8 * 3600
"""Certificates that are valid for less than this expire after the full time, without the backdating."""

_KEY_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_EXTENDED_USAGES = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
}


def sign_request(
    request: x509.CertificateSigningRequest,
    usages: list[str],
    *,
    certificate: bytes,
    key: bytes,
    expiration_seconds: int | None,
    now: datetime,
) -> bytes:
    """Return a certificate (PEM) for a request, signed by the authority with this certificate and key."""
    issuer = x509.load_pem_x509_certificate(certificate)
    private = serialization.load_pem_private_key(key, None)
    assert isinstance(private, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)
    wanted = MAX_SECONDS if expiration_seconds is None else expiration_seconds
    seconds = min(max(wanted, MIN_SECONDS), MAX_SECONDS)
    end = now + timedelta(seconds=seconds) - (BACKDATE if seconds >= SHORT_SECONDS else timedelta())
    unknown = [each for each in usages if each not in _KEY_USAGES and each not in _EXTENDED_USAGES]
    if unknown:
        raise InvalidRequest(f"unrecognized usage values: {unknown}")
    builder = (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(issuer.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - BACKDATE)
        .not_valid_after(min(end.astimezone(UTC), issuer.not_valid_after_utc))
        .add_extension(_key_usage(usages), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(private.public_key()), critical=False
        )
    )
    extended = list(dict.fromkeys(_EXTENDED_USAGES[each] for each in usages if each in _EXTENDED_USAGES))
    if extended:
        builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        builder = builder.add_extension(names, critical=False)
    except x509.ExtensionNotFound:
        pass
    return builder.sign(private, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _key_usage(usages: list[str]) -> x509.KeyUsage:
    chosen = {_KEY_USAGES[each] for each in usages if each in _KEY_USAGES}
    agreement = "key_agreement" in chosen
    return x509.KeyUsage(
        digital_signature="digital_signature" in chosen,
        content_commitment="content_commitment" in chosen,
        key_encipherment="key_encipherment" in chosen,
        data_encipherment="data_encipherment" in chosen,
        key_agreement=agreement,
        key_cert_sign="key_cert_sign" in chosen,
        crl_sign="crl_sign" in chosen,
        encipher_only=agreement and "encipher_only" in chosen,
        decipher_only=agreement and "decipher_only" in chosen,
    )
