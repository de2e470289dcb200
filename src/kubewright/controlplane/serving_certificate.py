"""The certificate of the API server: from `--cert-dir`, from the storage, or issued for its hosts."""

from __future__ import annotations

import ipaddress
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


def serving_hosts(bind: str, service_ranges: Sequence[str], hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the names and addresses of the API server: local, of the service `kubernetes`, and `hosts`."""
    first = (str(next(ipaddress.ip_network(each).hosts())) for each in service_ranges)
    local = {"0.0.0.0": (), "::": ()}.get(bind, (bind,))  # noqa: S104
    return (*local, "localhost", "127.0.0.1", "::1", *first, *SERVICE_NAMES, *hosts)


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
