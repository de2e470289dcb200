"""Serving certificates for webhooks, and the trust that goes with them.

Three ways to have one:

- `CertificateFiles`: files that somebody else writes (cert-manager); read again when they change.
- `ManagedCertificates`: an authority of the operator's own, in a Secret that all replicas share. It makes,
  renews and rotates what is in it and writes the authority into webhook configurations and CRDs.
- `SelfSignedCertificates`: made at start for this machine; nothing is stored.

All of them change the TLS context in place, so running servers use a new certificate for new connections.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import logging
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import AlreadyExists, APIError, Conflict, NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import ObjectMeta
from kubewright.apiserver.http.tls import CertificateAuthority, KeyPair, server_context
from kubewright.client.errors import ConnectionFailed

if TYPE_CHECKING:
    from kubewright.api.core.v1 import Secret
    from kubewright.client import Client

logger = logging.getLogger(__name__)

CERTIFICATE_DAYS = 90
AUTHORITY_DAYS = 3650
CHECK_SECONDS = 600.0
MISSING_CHECK_SECONDS = 5.0
"""How often to look for configurations that are not installed yet."""
FILE_CHECK_SECONDS = 10.0
_BUNDLE, _AUTHORITY_KEY = "ca.crt", "ca.key"


@lru_cache(maxsize=1)
def _reads() -> tuple[Any, Any]:
    from prometheus_client import Counter

    prefix = "certwatcher_read_certificate"
    return (
        Counter(f"{prefix}_total", "Times that certificate files were read"),
        Counter(f"{prefix}_errors_total", "Times that certificate files could not be read or used"),
    )


class CertificateFiles:
    """A certificate and key in files, read again when they change."""

    def __init__(
        self, certificate: str | Path, key: str | Path, *, period: float = FILE_CHECK_SECONDS
    ) -> None:
        self._certificate = Path(certificate)
        self._key = Path(key)
        self._period = period
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> ssl.SSLContext:
        """Read the files; a missing or wrong one is an error now, and a log line later."""
        try:
            pair = self._read()
        except OSError as error:
            _reads()[1].inc()
            raise OSError(
                f"the serving certificate {error.filename} cannot be read: {error.strerror}"
            ) from None
        context = server_context(pair)
        self._task = asyncio.create_task(self._watch(context, pair))
        return context

    async def stop(self) -> None:
        """Stop watching the files."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _read(self) -> KeyPair:
        _reads()[0].inc()
        return KeyPair(self._certificate.read_bytes(), self._key.read_bytes())

    async def _watch(self, context: ssl.SSLContext, current: KeyPair) -> None:
        while True:
            await asyncio.sleep(self._period)
            try:
                found = self._read()
                if found != current:
                    load_pair(context, found)
                    current = found
                    logger.info("the serving certificate %s was read again", self._certificate)
            except (OSError, ssl.SSLError) as error:
                # The two files are often replaced one after the other: the next look finds them whole.
                _reads()[1].inc()
                logger.warning("the serving certificate %s cannot be used yet: %s", self._certificate, error)


class SelfSignedCertificates:
    """A certificate for this machine, made at start. `authority` is what clients must trust."""

    def __init__(self, hosts: Iterable[str] = ("127.0.0.1", "localhost", "::1")) -> None:
        self._made = CertificateAuthority.create("kubewright-development", days=30)
        self._hosts = tuple(hosts)

    @property
    def authority(self) -> bytes:
        """The certificate of the authority (PEM): a `caBundle`."""
        return self._made.certificate

    def context(self) -> ssl.SSLContext:
        """A TLS context with a certificate for this machine."""
        return server_context(self._made.issue("webhook", hosts=self._hosts, server=True, days=30))

    async def start(self) -> ssl.SSLContext:
        """Make the certificate."""
        return self.context()

    async def stop(self) -> None:
        """Nothing to stop."""


CABundleTarget = tuple[GroupVersionKind, str]
"""An object that must trust the authority: a webhook configuration or a CRD, by name."""


class ManagedCertificates:
    """An authority and a serving certificate in a Secret, shared by all replicas.

    Needs `get`, `create` and `update` on that Secret, and `get` and `patch` on the objects it injects into.
    Whoever finds something missing or old writes it, guarded by the resourceVersion, so replicas agree on one
    result however they race. A new authority is trusted, beside the old one, before anything is signed by it.
    """

    def __init__(
        self,
        client: Client,
        *,
        secret: str,
        namespace: str,
        hosts: Sequence[str],
        inject: Sequence[CABundleTarget] = (),
        certificate_days: int = CERTIFICATE_DAYS,
        authority_days: int = AUTHORITY_DAYS,
        period: float = CHECK_SECONDS,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._client = client
        self._secret = secret
        self._namespace = namespace
        self._hosts = tuple(hosts)
        self._inject = tuple(inject)
        self._certificate_days = certificate_days
        self._authority_days = authority_days
        self._period = self._next_look = period
        self._now = now
        self._context: ssl.SSLContext | None = None
        self._current: KeyPair | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> ssl.SSLContext:
        """Have a certificate that clients trust, and keep it so."""
        await self.refresh()
        assert self._context is not None
        self._task = asyncio.create_task(self._keep())
        return self._context

    async def stop(self) -> None:
        """Stop looking after it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._next_look)
            try:
                await self.refresh()
            except (APIError, ConnectionFailed, OSError, TimeoutError) as error:
                logger.warning("the webhook certificate could not be looked after: %s", error)

    async def refresh(self) -> None:
        """Look at the Secret, make or renew what is missing or old, use it, and have it trusted."""
        secret = await self._settled()
        data = secret.data or {}
        pair = KeyPair(data["tls.crt"], data["tls.key"])
        if self._context is None:
            self._context = server_context(pair)
        elif pair != self._current:
            load_pair(self._context, pair)
        self._current = pair
        missing = False
        for kind, name in self._inject:
            if await inject_ca_bundle(self._client, kind, name, data[_BUNDLE]) is None:
                logger.info("%s %s is not there yet; it will be told whom to trust later", kind.kind, name)
                missing = True
        self._next_look = min(self._period, MISSING_CHECK_SECONDS) if missing else self._period

    async def _settled(self) -> Secret:
        """The Secret with everything in it; written by us or by another replica."""
        from kubewright.api.core.v1 import Secret

        while True:
            try:
                secret = await self._client.get(Secret, self._secret, namespace=self._namespace)
            except NotFound:
                secret = Secret(
                    metadata=ObjectMeta(name=self._secret, namespace=self._namespace),
                    type="kubernetes.io/tls",
                    data=self._renewed({}),
                )
                write: Awaitable[Any] = self._client.create(secret)
            else:
                before = dict(secret.data or {})
                after = self._renewed(before)
                if after == before:
                    return secret
                secret.data = after
                write = self._client.update(secret)
            try:
                await write
                logger.info("wrote a new webhook certificate to Secret %s/%s", self._namespace, self._secret)
                return secret
            except (AlreadyExists, Conflict):
                continue

    def _renewed(self, data: dict[str, bytes]) -> dict[str, bytes]:
        """The content of the Secret as it should be; the same if nothing is due."""
        bundle, key = data.get(_BUNDLE), data.get(_AUTHORITY_KEY)
        trusted = _certificates(bundle) if bundle else []
        authority = None
        if trusted and key and not self._due(trusted[0], self._authority_days):
            authority = CertificateAuthority(KeyPair(trusted[0], key))
        certificate = data.get("tls.crt")
        serving_is_good = (
            authority is not None
            and certificate
            and data.get("tls.key")
            and not self._due(certificate, self._certificate_days)
            and _covers(certificate, self._hosts)
        )
        if serving_is_good:
            return data
        if authority is None:
            authority = CertificateAuthority.create(self._secret, days=self._authority_days)
            still_valid = [each for each in trusted if _expiry(each) > self._now()]
            trusted = [authority.certificate, *still_valid[:2]]
        pair = authority.issue(self._hosts[0], hosts=self._hosts, server=True, days=self._certificate_days)
        return {
            **data,
            _BUNDLE: b"".join(trusted),
            _AUTHORITY_KEY: authority.pair.key,
            "tls.crt": pair.certificate,
            "tls.key": pair.key,
        }

    def _due(self, certificate: bytes, days: int) -> bool:
        """Whether less than a third of its life is left."""
        return _expiry(certificate) - self._now() < datetime.timedelta(days=days / 3)


async def inject_ca_bundle(client: Client, kind: GroupVersionKind, name: str, bundle: bytes) -> bool | None:
    """Write a `caBundle` into a webhook configuration or the conversion of a CRD.

    Tells whether that was needed; `None` if there is no such object yet. Other replicas may do the same.
    """
    text = base64.b64encode(bundle).decode()
    while True:
        try:
            obj = await client.get(kind, name)
        except NotFound:
            return None
        stale = [each for each in _client_configs(obj.raw) if each.get("caBundle") != text]
        if not stale:
            return False
        for each in stale:
            each["caBundle"] = text
        try:
            await client.patch(obj, optimistic_lock=True)
            return True
        except Conflict:
            continue


def _client_configs(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """Where a webhook configuration or a CRD says how its webhooks are called."""
    conversion = (raw.get("spec") or {}).get("conversion") or {}
    found = [conversion.get("webhook"), *(raw.get("webhooks") or ())]
    return [each["clientConfig"] for each in found if each and "clientConfig" in each]


def load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Use another certificate for new connections of a context."""
    with tempfile.TemporaryDirectory(prefix="kubewright-") as directory:
        certificate, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
        pair.write(certificate, key)
        context.load_cert_chain(certificate, key)


def _certificates(bundle: bytes) -> list[bytes]:
    end = b"-----END CERTIFICATE-----"
    return [part.lstrip() + end + b"\n" for part in bundle.split(end)[:-1]]


def _expiry(certificate: bytes) -> datetime.datetime:
    from cryptography import x509

    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def _covers(certificate: bytes, hosts: Iterable[str]) -> bool:
    from cryptography import x509

    loaded = x509.load_pem_x509_certificate(certificate)
    try:
        names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    known = {str(name.value) for name in names}
    return all(host in known for host in hosts)


__all__ = [
    "CABundleTarget",
    "CertificateFiles",
    "ManagedCertificates",
    "SelfSignedCertificates",
    "inject_ca_bundle",
]
