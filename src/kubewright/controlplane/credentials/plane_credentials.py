"""The certificates and keys that a control plane uses for itself.

Two certificate authorities sign them: one the certificates of the server and of its clients, the other those
of front proxies, so that a client certificate is never accepted as that of a proxy. They are created at the
first start and stored (see `credentials`); replicas on one storage share them. Certificates and keys that the
user supplies are used instead of stored ones.

The certificate of the API server: from `--cert-dir`, from the storage, or issued for its hosts.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kubewright.apiserver.authentication.user import MASTERS
from kubewright.tls.certificates import CertificateAuthority, KeyPair
from kubewright.trusted_files import check_file, read_named_file

from .credentials import (
    CredentialStore,
    load_or_create_ca,
    load_or_create_signing_key,
    load_or_issue_certificate,
    read_key_pair,
)

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


SERVICE_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


def advertised_address(bind: str, given: str = "") -> str:
    """Return the IP address in the endpoints of the service `kubernetes`.

    That is the given one, or the one to listen on. If that is any address of the machine, it is the one from
    which the machine reaches others, as in kube-apiserver. Raises `ValueError` for a given name.
    """
    try:
        address = ipaddress.ip_address((given or bind).strip("[]"))
    except ValueError:
        if given:
            text = f'--advertise-address "{given}" is not an IP address; names belong to --host'
            raise ValueError(text) from None
        return "127.0.0.1"
    if not address.is_unspecified:
        return str(address)
    return _outgoing_address(address.version) or ("127.0.0.1" if address.version == 4 else "::1")


def _outgoing_address(version: int) -> str:
    """Return the source address of packets to other networks; empty if there is no route to them."""
    family, target = (socket.AF_INET, "192.0.2.1") if version == 4 else (socket.AF_INET6, "2001:db8::1")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((target, 9))  # Chooses a route; nothing is sent.
            return str(probe.getsockname()[0])
        except OSError:
            return ""


def serving_hosts(
    bind: str, service_ranges: Sequence[str], hosts: Sequence[str], advertised: str = ""
) -> tuple[str, ...]:
    """Return the names and addresses of the API server: local, advertised, of the service `kubernetes`, and
    `hosts`."""
    first = (str(next(ipaddress.ip_network(each).hosts())) for each in service_ranges)
    local = {"0.0.0.0": (), "::": ()}.get(bind, (bind,))  # noqa: S104
    names = (*local, advertised, "localhost", "127.0.0.1", "::1", *first, *SERVICE_NAMES, *hosts)
    return tuple(dict.fromkeys(filter(None, names)))


async def load_serving_certificate(
    credentials: CredentialStore,
    authority: CertificateAuthority,
    hosts: Sequence[str],
    directory: Path | None,
) -> KeyPair:
    """Return the certificate in `directory`, or the stored one, issued if necessary and written there."""
    if directory is not None and (directory / "apiserver.crt").exists():
        for name in ("apiserver.crt", "apiserver.key"):
            check_file(directory / name)
        return KeyPair.from_files(directory / "apiserver.crt", directory / "apiserver.key")
    pair = await load_or_issue_certificate(
        credentials, "serving", authority, "kubewright-apiserver", hosts=hosts, server=True
    )
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - once, at the start
        pair.write(directory / "apiserver.crt", directory / "apiserver.key")
    return pair
