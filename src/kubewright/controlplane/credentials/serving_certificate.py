"""The certificate of the API server: from `--cert-dir`, from the storage, or issued for its hosts."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

from kubewright.tls.certificates import CertificateAuthority, KeyPair
from kubewright.trusted_files import check_file

from .credentials import CredentialStore, load_or_issue_certificate

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
