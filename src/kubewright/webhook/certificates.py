"""Serving certificates for webhooks and metrics, and the CA bundles that clients verify them with.

- `CertificateFiles`: files written by another component, such as cert-manager; reloaded when they change.
- `ManagedCertificates`: a CA of the operator, in a Secret shared by all replicas. The CA and the certificates
  are created, renewed and rotated here, and the CA bundle is injected into webhook configurations and CRDs.
- `SelfSignedCertificates`: created at start, not stored.

All of them update the TLS context in place, so a running server uses a new certificate for new connections.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import AlreadyExists, APIError, Conflict, NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import ObjectMeta
from kubewright.background import run_forever
from kubewright.client.errors import ConnectionFailed
from kubewright.tls.certificates import CertificateAuthority, KeyPair, load_key_pair, server_context

if TYPE_CHECKING:
    from kubewright.api.core.v1 import Secret
    from kubewright.client import Client

logger = logging.getLogger(__name__)

CERTIFICATE_DAYS = 90
CA_DAYS = 3650
CHECK_SECONDS = 600.0
MISSING_CHECK_SECONDS = 5.0
"""Interval of checks while a webhook configuration or CRD does not exist yet."""
FILE_CHECK_SECONDS = 10.0
_BUNDLE, _CA_KEY = "ca.crt", "ca.key"


@lru_cache(maxsize=1)
def _reads() -> tuple[Any, Any]:
    from prometheus_client import Counter

    prefix = "certwatcher_read_certificate"
    return (
        Counter(f"{prefix}_total", "Total number of reads of certificate files"),
        Counter(f"{prefix}_errors_total", "Total number of failed reads of certificate files"),
    )


@lru_cache(maxsize=1)
def _expirations() -> Any:
    from prometheus_client import Gauge

    return Gauge(
        "kubewright_serving_certificate_expiration_timestamp_seconds",
        "When the certificate of the webhook and metrics servers expires",
    )


def _serve(pair: KeyPair, context: ssl.SSLContext | None = None) -> ssl.SSLContext:
    """Use a certificate for new connections of a TLS context, and report when it expires."""
    if context is None:
        context = server_context(pair)
    else:
        load_key_pair(context, pair)
    _expirations().set(_expiry(pair.certificate).timestamp())
    return context


class CertificateFiles:
    """Certificate and key in files, reloaded when they change."""

    def __init__(
        self, certificate: str | Path, key: str | Path, *, period: float = FILE_CHECK_SECONDS
    ) -> None:
        self._certificate = Path(certificate)
        self._key = Path(key)
        self._period = period
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> ssl.SSLContext:
        """Load the files. Errors are raised here; later ones are logged."""
        try:
            pair = self._read()
        except OSError as error:
            _reads()[1].inc()
            raise OSError(f"cannot read serving certificate {error.filename}: {error.strerror}") from None
        context = _serve(pair)
        self._task = run_forever(partial(self._watch, context, pair), name="webhook certificate files")
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
                    _serve(found, context)
                    current = found
                    logger.info("reloaded serving certificate", extra={"path": str(self._certificate)})
            except (OSError, ssl.SSLError) as error:
                # The two files are often replaced one after the other: the next check finds both.
                _reads()[1].inc()
                logger.warning(
                    "could not reload serving certificate",
                    extra={"path": str(self._certificate), "error": str(error)},
                )


class SelfSignedCertificates:
    """Certificate issued at start by a temporary CA, which clients must trust (`ca_bundle`).

    It is not renewed, and therefore valid for longer than a development server or a simulation runs.
    """

    def __init__(self, hosts: Iterable[str] = ("127.0.0.1", "localhost", "::1")) -> None:
        self._ca = CertificateAuthority.create("kubewright-development", days=CA_DAYS)
        self._hosts = tuple(hosts)

    @property
    def ca_bundle(self) -> bytes:
        """Certificate of the CA (PEM)."""
        return self._ca.certificate

    def context(self) -> ssl.SSLContext:
        """Return a TLS context with a new certificate."""
        return _serve(self._ca.issue("webhook", hosts=self._hosts, server=True, days=CA_DAYS))

    async def start(self) -> ssl.SSLContext:
        """Issue the certificate."""
        return self.context()

    async def stop(self) -> None:
        """Do nothing."""


CABundleTarget = tuple[GroupVersionKind, str]
"""Kind and name of an object that contains the CA bundle: a webhook configuration, a CRD or an APIService."""


class ManagedCertificates:
    """CA and serving certificate in a Secret that is shared by all replicas.

    Permissions: `get`, `create` and `update` of the Secret, and `get` and `patch` of the objects that contain
    the CA bundle. Any replica renews what is missing or due, with the resourceVersion as a precondition, so
    all replicas use the same certificates. A new CA is added to the bundle, beside the old one, before it
    issues certificates.
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
        ca_days: int = CA_DAYS,
        period: float = CHECK_SECONDS,
        on_change: Callable[[KeyPair], object] | None = None,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        """`on_change` is called with the first and with every renewed certificate."""
        self._client = client
        self._on_change = on_change
        self._secret = secret
        self._namespace = namespace
        self._hosts = tuple(hosts)
        self._inject = tuple(inject)
        self._certificate_days = certificate_days
        self._ca_days = ca_days
        self._period = self._next_check = period
        self._now = now
        self._context: ssl.SSLContext | None = None
        self._current: KeyPair | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> ssl.SSLContext:
        """Create or load the certificate, inject the CA bundle, and renew both in the background."""
        await self.refresh()
        assert self._context is not None
        self._task = run_forever(self._renew_periodically, name="webhook certificate")
        return self._context

    async def stop(self) -> None:
        """Stop renewing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _renew_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._next_check)
            try:
                await self.refresh()
            except (APIError, ConnectionFailed, OSError, TimeoutError) as error:
                logger.warning("could not renew webhook certificate", extra={"error": str(error)})

    async def refresh(self) -> None:
        """Read the Secret, create or renew certificates that are due, load them, and inject the CA bundle."""
        secret = await self._current_secret()
        data = secret.data or {}
        pair = KeyPair(data["tls.crt"], data["tls.key"])
        if self._context is None or pair != self._current:
            self._context = _serve(pair, self._context)
        if self._on_change is not None and pair != self._current:
            self._on_change(pair)
        self._current = pair
        missing = False
        for kind, name in self._inject:
            if await inject_ca_bundle(self._client, kind, name, data[_BUNDLE]) is None:
                logger.info(
                    "object for CA bundle injection does not exist yet",
                    extra={"kind": kind.kind, "object": name},
                )
                missing = True
        self._next_check = min(self._period, MISSING_CHECK_SECONDS) if missing else self._period

    async def _current_secret(self) -> Secret:
        """Return the Secret with valid certificates, written by this or by another replica."""
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
                logger.info(
                    "renewed webhook certificate",
                    extra={"kind": "Secret", "namespace": self._namespace, "object": self._secret},
                )
                return secret
            except (AlreadyExists, Conflict):
                continue

    def _renewed(self, data: dict[str, bytes]) -> dict[str, bytes]:
        """Return the desired content of the Secret; unchanged if nothing is due."""
        bundle, key = data.get(_BUNDLE), data.get(_CA_KEY)
        trusted = _certificates(bundle) if bundle else []
        ca = None
        if trusted and key and not self._due(trusted[0], self._ca_days):
            ca = CertificateAuthority(KeyPair(trusted[0], key))
        certificate = data.get("tls.crt")
        certificate_is_valid = (
            ca is not None
            and certificate
            and data.get("tls.key")
            and not self._due(certificate, self._certificate_days)
            and _covers(certificate, self._hosts)
        )
        if certificate_is_valid:
            return data
        if ca is None:
            ca = CertificateAuthority.create(self._secret, days=self._ca_days)
            still_valid = [each for each in trusted if _expiry(each) > self._now()]
            trusted = [ca.certificate, *still_valid[:2]]
        pair = ca.issue(self._hosts[0], hosts=self._hosts, server=True, days=self._certificate_days)
        return {
            **data,
            _BUNDLE: b"".join(trusted),
            _CA_KEY: ca.pair.key,
            "tls.crt": pair.certificate,
            "tls.key": pair.key,
        }

    def _due(self, certificate: bytes, days: int) -> bool:
        """Whether less than a third of the validity is left."""
        return _expiry(certificate) - self._now() < datetime.timedelta(days=days / 3)


async def inject_ca_bundle(client: Client, kind: GroupVersionKind, name: str, bundle: bytes) -> bool | None:
    """Write a `caBundle` into a webhook configuration, the conversion of a CRD or an APIService.

    Returns whether the object was changed, or `None` if it does not exist. Safe to call concurrently.
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
    """Return the `clientConfig` entries of a webhook configuration or a CRD, or the spec of an APIService."""
    if raw.get("kind") == "APIService":
        return [raw["spec"]] if (raw.get("spec") or {}).get("service") else []
    conversion = (raw.get("spec") or {}).get("conversion") or {}
    found = [conversion.get("webhook"), *(raw.get("webhooks") or ())]
    return [each["clientConfig"] for each in found if each and "clientConfig" in each]


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
