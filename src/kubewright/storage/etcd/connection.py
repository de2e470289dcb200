"""Connection to etcd: URL, members, TLS, authentication and errors.

Every member of a cluster serves every request. Calls use one member until it is unreachable, then the next.
Reads are retried there; a write only if it was certainly not sent, because a retry of a successful write
would look like a conflict.

The generated gRPC stubs of aetcd are called directly: its client has no reads at a revision, limits or
progress requests.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kubewright.storage.contract import RequestTooLarge, StorageError, StorageUnavailable

DEFAULT_PORT = 2379


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdOptions:
    """Addresses and options of etcd. The names are those of the URL's query."""

    endpoints: tuple[str, ...]
    prefix: str = ""
    tls: bool = False
    """Use TLS; implied by `cacert` and `cert`."""
    cacert: str | None = None
    """File with the certificates that the server's must be signed by."""
    cert: str | None = None
    """File with the client certificate; needs `key`."""
    key: str | None = None
    """File with the key of the client certificate."""
    server_name: str | None = None
    """Name to expect in the server's certificate, if not the host."""
    user: str | None = None
    password_file: str | None = None
    """File that holds the password of `user`; read again at every login."""
    password_env: str | None = None
    """Environment variable that contains the password."""
    timeout: float = 5.0
    """Timeout of a request with all its retries, in seconds."""
    compact_every: float = 300.0
    """Seconds between compactions, the minimum age of compacted history; 0 disables them."""

    @classmethod
    def parse(cls, url: str) -> EtcdOptions:
        """Options from `etcd://HOST:PORT[,HOST:PORT...][/PREFIX][?name=value&...]`."""
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise StorageError(
                "a storage URL cannot contain user and password: use ?user=NAME&password_file=FILE"
            )
        endpoints = tuple(_endpoint(host) for host in parts.netloc.split(",") if host)
        if not endpoints:
            raise StorageError(
                "the storage URL has no etcd address; use etcd://HOST:PORT[,HOST:PORT...]/PREFIX"
            )
        known = {option.name for option in fields(cls)} - {"endpoints", "prefix"}
        values: dict[str, Any] = {}
        for name, text in parse_qsl(parts.query, keep_blank_values=True):
            if name == "password":
                raise StorageError(
                    "a password in a storage URL would end up in logs: "
                    "use password_file=FILE or password_env=NAME"
                )
            if name not in known:
                raise StorageError(f"unknown etcd option {name!r}; use one of {', '.join(sorted(known))}")
            values[name] = _value(name, text)
        prefix = parts.path.rstrip("/")
        return cls(endpoints=endpoints, prefix=prefix, **values)

    def __post_init__(self) -> None:
        if bool(self.cert) != bool(self.key):
            raise StorageError("etcd options cert and key must be used together")
        if self.user is not None and not (self.password_file or self.password_env):
            raise StorageError("etcd option user needs password_file=FILE or password_env=NAME")


def _endpoint(host: str) -> str:
    bracketed = host.startswith("[") and host.endswith("]")
    name, colon, port = host.rpartition(":")
    if bracketed or not colon:
        return f"{host}:{DEFAULT_PORT}"
    if not name or not port.isdecimal() or not 0 < int(port) < 65536:
        raise StorageError(f"{host!r} is not an etcd address; use HOST:PORT")
    return host


def _value(name: str, text: str) -> object:
    if name == "tls":
        if text not in ("true", "false"):
            raise StorageError(f"etcd option tls is true or false, not {text!r}")
        return text == "true"
    if name in ("timeout", "compact_every"):
        try:
            return float(text)
        except ValueError:
            raise StorageError(f"etcd option {name} is a number of seconds, not {text!r}") from None
    return text


def load_rpc() -> Any:
    """Import the generated messages and stubs."""
    try:
        from aetcd import rpc
    except ImportError as error:
        raise StorageError("storage in etcd needs aetcd: pip install 'kubewright[etcd]'") from error
    return rpc


@dataclass(slots=True)
class _Member:
    channel: Any
    kv: Any
    lease: Any
    watch: Any
    auth: Any
    maintenance: Any


@dataclass(slots=True)
class EtcdConnection:
    """Channels to the members of one cluster."""

    options: EtcdOptions
    rpc: Any = None
    metadata: tuple[tuple[str, str], ...] = ()
    _members: list[_Member] = field(default_factory=list)
    _at: int = 0

    @property
    def member(self) -> _Member:
        """The member in use."""
        return self._members[self._at]

    @property
    def where(self) -> str:
        """The addresses, for messages."""
        return ",".join(self.options.endpoints)

    async def open(self) -> None:
        """Open the channels and authenticate."""
        self.rpc = rpc = load_rpc()
        credentials = self._credentials()
        settings: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 2000),  # also the timeout of a connection attempt
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if self.options.server_name:
            settings.append(("grpc.ssl_target_name_override", self.options.server_name))
        for endpoint in self.options.endpoints:
            if credentials is None:
                channel = rpc.insecure_channel(endpoint, options=settings)
            else:
                channel = rpc.secure_channel(endpoint, credentials, options=settings)
            self._members.append(
                _Member(
                    channel,
                    rpc.KVStub(channel),
                    rpc.LeaseStub(channel),
                    rpc.WatchStub(channel),
                    rpc.AuthStub(channel),
                    rpc.MaintenanceStub(channel),
                )
            )
        if self.options.user is not None:
            await self.login()

    def _credentials(self) -> Any:
        options = self.options
        if not (options.tls or options.cacert or options.cert):
            return None
        import grpc

        return grpc.ssl_channel_credentials(
            root_certificates=_read("cacert", options.cacert),
            private_key=_read("key", options.key),
            certificate_chain=_read("cert", options.cert),
        )

    async def close(self) -> None:
        """Close the channels."""
        members, self._members = self._members, []
        for member in members:
            await member.channel.close()

    def switch_from(self, member: _Member) -> None:
        """Use the next member, unless another call has already switched."""
        if self._members and self.member is member:
            self._at = (self._at + 1) % len(self._members)

    async def login(self) -> None:
        """Request a token for the user."""
        options = self.options
        if options.password_file:
            password = (_read("password_file", options.password_file) or b"").decode().rstrip("\r\n")
        else:
            name = options.password_env or ""
            if name not in os.environ:
                raise StorageError(f"the environment variable {name} (etcd option password_env) is not set")
            password = os.environ[name]
        self.metadata = ()
        request = self.rpc.AuthenticateRequest(name=options.user, password=password)
        response = await self.call("auth", "Authenticate", request, repeat=True)
        self.metadata = (("token", response.token),)

    def token_expired(self, text: str) -> bool:
        """Whether an error may mean that the token has expired, so that a new login is needed.

        It is reported as a missing permission for watches, and if clients have certificates, too.
        """
        if self.options.user is None:
            return False
        expected = ("invalid auth token", "revision of auth store is old", "permission denied")
        return any(each in text for each in expected)

    async def call(self, service: str, method: str, request: Any, *, repeat: bool) -> Any:
        """Send a request; `repeat`: whether it can be sent twice."""
        if not self._members:
            raise StorageError("storage is not open")
        unavailable = self.rpc.StatusCode.UNAVAILABLE
        failures = 0
        logins = 0
        deadline = time.monotonic() + self.options.timeout
        while True:
            member = self.member
            try:
                return await getattr(getattr(member, service), method)(
                    request, timeout=max(0.01, deadline - time.monotonic()), metadata=self.metadata or None
                )
            except self.rpc.AioRpcError as error:
                if self.token_expired(error.details() or "") and method != "Authenticate" and not logins:
                    logins += 1
                    await self.login()
                    continue
                failures += 1
                if error.code() is self.rpc.StatusCode.DEADLINE_EXCEEDED:
                    self.switch_from(member)  # for the next calls: the member may be paused or partitioned
                unsent = "failed to connect to all addresses" in (error.details() or "")
                if error.code() is not unavailable or not (repeat or unsent):
                    raise self.explain(error, sent=not unsent and not repeat) from error
                pause = backoff(failures // len(self._members))
                if time.monotonic() + pause >= deadline:
                    raise self.explain(error, sent=False) from error
            self.switch_from(member)
            await asyncio.sleep(pause)

    def explain(self, error: Any, *, sent: bool = False) -> Exception:
        """Return the error for a gRPC error."""
        code = error.code()
        text = error.details() or code.name
        codes = self.rpc.StatusCode
        if "has been compacted" in text or "is a future revision" in text:
            return RevisionUnreadable(text)
        if "request is too large" in text:
            return RequestTooLarge()
        if code is codes.UNAVAILABLE and not sent:
            hint = "check that it is running, and the TLS options"
        elif code in (codes.UNAVAILABLE, codes.DEADLINE_EXCEEDED) and sent:
            hint = "the response to a write was lost; it may or may not have been applied"
        elif code is codes.DEADLINE_EXCEEDED:
            hint = "timeout; check that a majority of its members is running"
        elif "database space exceeded" in text:
            hint = (
                "run etcdctl compact REVISION, etcdctl defrag and etcdctl alarm disarm; if that is not "
                "enough, raise --quota-backend-bytes of etcd"
            )
        elif code in (codes.UNAUTHENTICATED, codes.PERMISSION_DENIED):
            hint = "check the user, its password and its role"
        else:
            hint = ""
        is_transient = code in (codes.UNAVAILABLE, codes.DEADLINE_EXCEEDED)
        kind = StorageUnavailable if is_transient else StorageError
        return kind(f"etcd at {self.where}: {text}" + (f" ({hint})" if hint else ""))


class RevisionUnreadable(Exception):
    """A revision is compacted or in the future; the storage finds out which."""


def backoff(failures: int) -> float:
    """Return the delay after a number of failures in seconds, with jitter."""
    return float(min(5.0, 0.05 * 2 ** min(failures, 10)) * random.uniform(0.5, 1.0))  # noqa: S311


def _read(option: str, path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path} (etcd option {option}): {error.strerror}") from error
