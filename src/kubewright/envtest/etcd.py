"""Stand-in for etcd: owns a data directory and serves `/health`, but stores nothing itself.

The API server of Kubewright keeps its data in a SQLite file of the data directory, which it learns from
`/kubewright/store`. The stand-in accepts the flags of etcd, locks the directory against a second one, and
stops on SIGTERM. It serves no gRPC: clients of etcd cannot use it. It imports only the standard library and
starts in about 50 ms.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn
from urllib.parse import urlsplit

from kubewright.options.kinds import BOOLEAN, INTEGER, LIST, TEXT

from .flags import FlagError, Flags, mentions_flag, parse_flags

if TYPE_CHECKING:
    import ssl

VERSION = "3.6.0"
"""Version of etcd whose interface is served."""

STORE_PATH = "/kubewright/store"
"""Path at which the stand-in describes its store, for the API server."""

MAX_REQUEST_BYTES = 1_572_864

_SUPPORTED = {
    "string": "name data-dir cert-file key-file trusted-ca-file",
    "list": "listen-client-urls",
    "int": "max-request-bytes",
    "bool": "unsafe-no-fsync client-cert-auth",
}

_IGNORED = {
    "bool": """
        auto-tls peer-auto-tls peer-client-cert-auth socket-reuse-port socket-reuse-address
        initial-election-tick-advance strict-reconfig-check pre-vote enable-v2 enable-pprof
        enable-log-rotation enable-grpc-gateway force-new-cluster
        experimental-enable-distributed-tracing experimental-initial-corrupt-check
        experimental-enable-lease-checkpoint experimental-peer-skip-client-san-verification
        experimental-txn-mode-write-with-shared-buffer
    """,
    "string": """
        wal-dir snapshot-count heartbeat-interval election-timeout listen-peer-urls max-snapshots max-wals
        quota-backend-bytes backend-bbolt-freelist-type backend-batch-interval backend-batch-limit
        max-txn-ops max-concurrent-streams grpc-keepalive-min-time grpc-keepalive-interval
        grpc-keepalive-timeout initial-advertise-peer-urls initial-cluster initial-cluster-state
        initial-cluster-token advertise-client-urls discovery discovery-fallback discovery-proxy
        discovery-srv discovery-srv-name auto-compaction-retention auto-compaction-mode v2-deprecation
        client-crl-file client-cert-allowed-hostname peer-cert-file peer-key-file peer-trusted-ca-file
        peer-cert-allowed-cn peer-cert-allowed-hostname peer-crl-file self-signed-cert-validity
        cipher-suites tls-min-version tls-max-version cors host-whitelist auth-token bcrypt-cost
        auth-token-ttl metrics listen-metrics-urls listen-client-http-urls logger log-outputs log-level
        log-format log-rotation-config-json config-file feature-gates
        experimental-distributed-tracing-address experimental-distributed-tracing-service-name
        experimental-distributed-tracing-instance-id experimental-corrupt-check-time
        experimental-compaction-batch-limit experimental-watch-progress-notify-interval
        experimental-warning-apply-duration experimental-bootstrap-defrag-threshold-megabytes
        watch-progress-notify-interval corrupt-check-time compaction-batch-limit warning-apply-duration
        bootstrap-defrag-threshold-megabytes
    """,
}


def _types() -> dict[str, str]:
    return {
        name: kind
        for groups in (_SUPPORTED, _IGNORED)
        for kind, names in groups.items()
        for name in names.split()
    } | {"help": "bool", "version": "bool"}


def help_text() -> str:
    """Return the text of `--help`; envtest looks for `--unsafe-no-fsync` in it."""
    return f"""Usage:

  etcd [flags]
    Serve /health for Kubewright's API server, which stores its data in the data directory.

  --name 'default'
    Name of the member.
  --data-dir '${{name}}.etcd'
    Directory of the store.
  --listen-client-urls 'http://localhost:2379'
    URLs to listen on, separated by commas.
  --cert-file '', --key-file ''
    Certificate and key of https:// URLs.
  --client-cert-auth 'false', --trusted-ca-file ''
    Require client certificates of this CA.
  --max-request-bytes '{MAX_REQUEST_BYTES}'
    Maximum size of a stored object.
  --unsafe-no-fsync 'false'
    Do not wait until writes are on the disk.

Other flags of etcd are accepted and ignored.
"""


class Address(NamedTuple):
    """An address to listen on."""

    host: str
    port: int
    secure: bool

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parse a client URL; raises `FlagError`."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme not in ("http", "https") or not parts.hostname or port is None:
            raise FlagError(f"--listen-client-urls: {url!r} is not a URL such as http://127.0.0.1:2379")
        return cls(parts.hostname, port, parts.scheme == "https")


class Etcd:
    """The stand-in: sockets and the responses that it serves."""

    def __init__(self, directory: Path, *, fsync: bool, max_request_bytes: int) -> None:
        store = {"dataDir": str(directory), "fsync": fsync, "maxRequestBytes": max_request_bytes}
        self.pages = {
            "/health": {"health": "true", "reason": ""},
            "/version": {"etcdserver": VERSION, "etcdcluster": VERSION},
            STORE_PATH: store,
        }
        self._directory = directory
        self._lock: int | None = None

    def lock(self) -> None:
        """Create the data directory and lock it; raises `OSError` or `FlagError`."""
        import fcntl

        if (self._directory / "member" / "snap" / "db").exists():
            raise FlagError(
                f"--data-dir: {self._directory} holds the data of a real etcd; use another directory"
            )
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(self._directory / "etcd.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FlagError(f"--data-dir: {self._directory} is in use by another etcd") from None

    def listen(self, address: Address, context: ssl.SSLContext | None) -> None:
        """Listen on an address and serve it in a thread; raises `OSError`."""
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listener = socket.create_server((address.host, address.port), family=family, backlog=128)
        threading.Thread(target=self._accept, args=(listener, context), daemon=True).start()

    def _accept(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._serve, args=(connection, context), daemon=True).start()

    def _serve(self, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        """Serve the requests of one connection."""
        try:
            connection.settimeout(60.0)
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True)
            received = b""
            while True:
                while b"\r\n\r\n" not in received:
                    part = connection.recv(8192)
                    if not part or len(received) > 65536:
                        return
                    received += part
                head, _, received = received.partition(b"\r\n\r\n")
                method, target, _ = (head.split(b"\r\n")[0] + b"  ").split(b" ", 2)
                if method not in (b"GET", b"HEAD"):
                    return  # gRPC, whose connections begin with PRI, and writes are not served.
                connection.sendall(self.response(target.decode("latin-1"), head=method == b"HEAD"))
                if b"connection: close" in head.lower():
                    return
        except OSError:
            pass
        finally:
            connection.close()

    def response(self, target: str, *, head: bool = False) -> bytes:
        """Return the bytes of the response to a GET."""
        path = target.partition("?")[0]
        page = self.pages.get(path)
        if page is not None:
            status, kind, body = "200 OK", "application/json", json.dumps(page, separators=(",", ":"))
        elif path in ("/readyz", "/livez"):
            status, kind, body = "200 OK", "text/plain; charset=utf-8", "ok\n"
        else:
            status, kind, body = "404 Not Found", "text/plain; charset=utf-8", "404 page not found\n"
        lines = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        return (lines + ("" if head else body)).encode()


def _context(flags: Flags) -> ssl.SSLContext:
    import ssl

    if "cert-file" not in flags or "key-file" not in flags:
        raise FlagError("https:// URLs need --cert-file and --key-file")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(flags.read("cert-file", TEXT, ""), flags.read("key-file", TEXT, ""))
    if "trusted-ca-file" in flags:
        context.load_verify_locations(flags.read("trusted-ca-file", TEXT, ""))
        context.verify_mode = (
            ssl.CERT_REQUIRED if flags.read("client-cert-auth", BOOLEAN, False) else ssl.CERT_OPTIONAL
        )
    return context


def start(arguments: Sequence[str]) -> list[Address]:
    """Start the stand-in of a command line; returns where it listens. Raises `FlagError` or `OSError`."""
    flags = parse_flags(arguments, _types(), abbreviations={"h": "help"})
    directory = Path(
        flags.read("data-dir", TEXT, "") or f"{flags.read('name', TEXT, 'default')}.etcd"
    ).absolute()
    addresses = [Address.parse(url) for url in flags.read("listen-client-urls", LIST, ())]
    addresses = addresses or [Address("localhost", 2379, False)]
    context = _context(flags) if any(address.secure for address in addresses) else None
    etcd = Etcd(
        directory,
        fsync=not flags.read("unsafe-no-fsync", BOOLEAN, False),
        max_request_bytes=flags.read("max-request-bytes", INTEGER, MAX_REQUEST_BYTES),
    )
    etcd.lock()
    for address in addresses:
        try:
            etcd.listen(address, context if address.secure else None)
        except OSError as error:
            raise OSError(
                f"cannot listen on {address.host}:{address.port}: {error.strerror or error}"
            ) from None
    return addresses


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the stand-in until a signal ends the process."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if mentions_flag(arguments, "--help", "-h", "-help"):
        sys.stdout.write(help_text())
        sys.exit(0)
    if mentions_flag(arguments, "--version", "-version"):
        sys.stdout.write(f"etcd Version: {VERSION}\nKubewright stand-in\n")
        sys.exit(0)
    try:
        addresses = start([f"-{text}" if _has_one_dash(text) else text for text in arguments])
    except (FlagError, OSError) as error:
        sys.stderr.write(f"Error: {error}\n")
        sys.exit(1)
    # As in etcd, SIGTERM and SIGINT end the process immediately; it has nothing to write.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for address in addresses:
        sys.stderr.write(f"serving client traffic address={address.host}:{address.port}\n")
    sys.stderr.flush()
    while True:
        signal.pause()


def _has_one_dash(text: str) -> bool:
    """Whether a flag has one dash, which Go's flag package accepts."""
    return text[:1] == "-" and text[1:2] != "-" and len(text) > 2


if __name__ == "__main__":
    main()
