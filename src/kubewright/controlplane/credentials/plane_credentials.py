"""The certificates and keys that a control plane uses for itself.

Two certificate authorities sign them: one the certificates of the server and of its clients, the other those
of front proxies, so that a client certificate is never accepted as that of a proxy. They are created at the
first start and stored (see `credentials`); replicas on one storage share them. Certificates and keys that the
user supplies are used instead of stored ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kubewright.apiserver.authentication.user import MASTERS
from kubewright.trusted_files import read_named_file

from .credentials import (
    CredentialStore,
    load_or_create_ca,
    load_or_create_signing_key,
    load_or_issue_certificate,
    read_key_pair,
)
from .serving_certificate import load_serving_certificate

if TYPE_CHECKING:
    from kubewright.controlplane.options import ControlPlaneOptions
    from kubewright.storage import Storage
    from kubewright.tls.certificates import CertificateAuthority, KeyPair


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppliedCredentials:
    """Certificates and keys of the user; those that are missing are issued and stored."""

    serving: KeyPair | None = None
    front_proxy_client: KeyPair | None = None
    kubelet_client: KeyPair | None = None
    """Client certificate for kubelets; without one, it is issued when it is needed and not stored."""
    signing_key: bytes = b""
    """Private key (PEM) of service account tokens."""
    directory: Path | None = None
    """Directory that the serving certificate is read from, or written to (`--cert-dir`)."""

    @classmethod
    def read(cls, options: ControlPlaneOptions) -> Self:
        """Read the files of the options; raises `OSError` with the path."""
        signing, directory = options.service_account_signing_key_file, options.cert_dir
        return cls(
            serving=read_key_pair(options.tls_key_pair),
            front_proxy_client=read_key_pair(options.proxy_client_key_pair),
            kubelet_client=read_key_pair(options.kubelet_client_key_pair),
            signing_key=read_named_file(signing) if signing is not None else b"",
            directory=Path(directory) if directory is not None else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneCredentials:
    """The certificates and keys of a control plane."""

    authority: CertificateAuthority
    front_proxy_authority: CertificateAuthority
    front_proxy_client: KeyPair
    """Client certificate of the control plane as the proxy of extension API servers."""
    admin: KeyPair
    """Client certificate of the administrator, a member of `system:masters`."""
    signing_key: bytes
    """Private key (PEM) of service account tokens."""
    serving: KeyPair


async def load_plane_credentials(
    storage: Storage, supplied: SuppliedCredentials, hosts: Sequence[str]
) -> PlaneCredentials:
    """Return the credentials in a storage, created if necessary; `hosts` are those of the server."""
    store = CredentialStore(storage)
    authority = await load_or_create_ca(store, "authority", "kubewright-ca")
    front_proxy_authority = await load_or_create_ca(
        store, "front-proxy-authority", "kubewright-front-proxy-ca"
    )
    return PlaneCredentials(
        authority=authority,
        front_proxy_authority=front_proxy_authority,
        front_proxy_client=supplied.front_proxy_client
        or await load_or_issue_certificate(
            store, "front-proxy-client", front_proxy_authority, "front-proxy-client"
        ),
        admin=await load_or_issue_certificate(
            store, "admin", authority, "kubernetes-admin", groups=(MASTERS,)
        ),
        signing_key=supplied.signing_key or await load_or_create_signing_key(store),
        serving=supplied.serving
        or await load_serving_certificate(store, authority, hosts, supplied.directory),
    )
