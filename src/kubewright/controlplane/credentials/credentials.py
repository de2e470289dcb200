"""Credentials of a control plane: certificate authorities, certificates, the signing key of tokens.

They are stored in the storage under a prefix that no resource uses, so that kubeconfigs and tokens remain
valid after a restart. Files in `--cert-dir` take precedence.
"""

from __future__ import annotations

import hashlib
import ipaddress
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from kubewright.storage.contract import KeyExists, RevisionMismatch, Storage
from kubewright.tls.certificates import CertificateAuthority, KeyPair
from kubewright.trusted_files import read_named_file

PRIVATE = "/kubewright/private/"
_RENEW = timedelta(days=30)


class CredentialStore:
    """Credentials in storage, by name. Replicas that start concurrently use the first one written."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    async def get(self, name: str) -> dict[str, bytes] | None:
        """Return the parts of a credential, or `None`."""
        item = await self.storage.get(PRIVATE + name)
        if item is None:
            return None
        return {key: b64decode(value) for key, value in msgspec.json.decode(item.value).items()}

    async def put(self, name: str, parts: dict[str, bytes], *, replace: bool = False) -> dict[str, bytes]:
        """Store a credential and return it; return an existing one unless `replace` is set."""
        value = msgspec.json.encode({key: b64encode(part).decode() for key, part in parts.items()})
        try:
            await self.storage.create(PRIVATE + name, value)
        except KeyExists as error:
            if not replace:
                return await self.get(name) or parts
            try:
                await self.storage.update(PRIVATE + name, value, expected=error.current.mod_revision)
            except RevisionMismatch:
                return await self.get(name) or parts
        return parts


async def load_or_create_ca(
    credentials: CredentialStore, name: str, common_name: str
) -> CertificateAuthority:
    """Return a certificate authority, created at the first start."""
    kept = await credentials.get(name)
    if kept is None:
        pair = CertificateAuthority.create(common_name).pair
        kept = await credentials.put(name, {"crt": pair.certificate, "key": pair.key})
    return CertificateAuthority(KeyPair(kept["crt"], kept["key"]))


async def load_or_issue_certificate(
    credentials: CredentialStore,
    name: str,
    authority: CertificateAuthority,
    common_name: str,
    *,
    groups: Sequence[str] = (),
    hosts: Iterable[str] = (),
    server: bool = False,
) -> KeyPair:
    """Return a certificate; issue another if it expires soon, has another issuer or lacks a host."""
    kept = await credentials.get(name)
    wanted = list(dict.fromkeys(hosts))
    if kept is not None and _is_valid(kept["crt"], authority, wanted):
        return KeyPair(kept["crt"], kept["key"])
    pair = authority.issue(common_name, groups=groups, hosts=wanted, server=server)
    kept = await credentials.put(name, {"crt": pair.certificate, "key": pair.key}, replace=True)
    return KeyPair(kept["crt"], kept["key"])


def _is_valid(pem: bytes, authority: CertificateAuthority, hosts: list[str]) -> bool:
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(pem)
    if certificate.not_valid_after_utc - datetime.now(UTC) < _RENEW:
        return False
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
    except (ValueError, TypeError):
        return False
    except Exception as error:
        if type(error).__name__ == "InvalidSignature":
            return False
        raise
    if not hosts:
        return True
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    have = {str(each) for each in names.get_values_for_type(x509.IPAddress)}
    have.update(names.get_values_for_type(x509.DNSName))
    return all(_plain(host) in have for host in hosts)


def _plain(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def read_certificates(path: Path) -> bytes:
    """Read a file of certificates (PEM); raises `OSError`, or `ValueError` if it has none."""
    from cryptography import x509

    data = read_named_file(path)
    try:
        x509.load_pem_x509_certificates(data)
    except ValueError:
        raise ValueError(f"{path} contains no PEM certificates (-----BEGIN CERTIFICATE-----)") from None
    return data


def read_key_pair(paths: tuple[str | Path, str | Path] | None) -> KeyPair | None:
    """Read a certificate and its key, if their files are given; raises `OSError` with the path."""
    return KeyPair.from_files(*map(Path, paths)) if paths is not None else None


async def load_or_create_signing_key(credentials: CredentialStore) -> bytes:
    """Return the private key (PEM) that signs service account tokens."""
    kept = await credentials.get("service-account")
    if kept is None:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        kept = await credentials.put("service-account", {"key": pem})
    return kept["key"]


def key_id(key: Any) -> str:
    """Return the `kid` of a public key: the hash of its DER encoding."""
    from cryptography.hazmat.primitives import serialization

    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
