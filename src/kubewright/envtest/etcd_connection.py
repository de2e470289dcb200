"""How the API server finds its store through `--etcd-servers`.

The etcd stand-in owns a data directory and serves its path at `/kubewright/store`, together with the options
that concern the store. The API server opens the SQLite file of its key prefix in that directory. It therefore
finds the same data after a restart of either process or of both, with other ports, as long as the directory
is the same. A server without that path is a real etcd and is used as one.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from kubewright.options.kinds import LIST, SECONDS, TEXT
from kubewright.options.model import option

from .etcd import STORE_PATH
from .flags import FlagError

if TYPE_CHECKING:
    from kubewright.storage import Storage

DEFAULT_PREFIX = "/registry"

CONNECT_TIMEOUT = 20.0
"""Seconds in which etcd must respond."""

_RETRY_INTERVAL = 0.05


class EtcdUnavailable(Exception):
    """No etcd server responds, or its store cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdClientOptions:
    """The `--etcd-...` flags of the API server."""

    servers: tuple[str, ...] = option((), LIST, "URLs of etcd servers.", "etcd-servers")
    prefix: str = option(DEFAULT_PREFIX, TEXT, "Prefix of keys.", "etcd-prefix")
    cafile: str = option("", TEXT, "CA bundle (PEM) of the servers.", "etcd-cafile")
    certfile: str = option("", TEXT, "Client certificate (PEM).", "etcd-certfile")
    keyfile: str = option("", TEXT, "Key (PEM) of the client certificate.", "etcd-keyfile")
    compaction_interval: float = option(
        300.0, SECONDS, "Interval of compactions; 0 disables them.", "etcd-compaction-interval"
    )

    def __post_init__(self) -> None:
        if not self.servers:
            raise FlagError("--etcd-servers must be specified")
        for server in self.servers:
            if urlsplit(server).scheme not in ("http", "https") or not urlsplit(server).hostname:
                raise FlagError(f"--etcd-servers: {server!r} is not a URL such as http://127.0.0.1:2379")


def store_file_name(prefix: str) -> str:
    """Return the name of the SQLite file of a key prefix: `registry.db` for `/registry`."""
    return f"{quote(prefix.strip('/') or 'root', safe='')}.db"


async def open_etcd(options: EtcdClientOptions, *, timeout: float = CONNECT_TIMEOUT) -> Storage:
    """Return the storage behind the etcd servers, not opened yet; raises `EtcdUnavailable`."""
    from kubewright.storage import open_storage

    found = await _find_store(options, timeout)
    if found is None:
        hosts = ",".join(urlsplit(server).netloc for server in options.servers)
        # Keys of objects begin with /registry in any case.
        prefix = "" if options.prefix.strip("/") == "registry" else quote(options.prefix.strip("/"))
        return open_storage(f"etcd://{hosts}/{prefix}?{urlencode(_etcd_query(options))}")
    directory = _local_directory(found["dataDir"])
    settings: Any = {"fsync": found["fsync"], "max_request_bytes": found["maxRequestBytes"]}
    return open_storage(f"sqlite:{directory / store_file_name(options.prefix)}", **settings)


def _local_directory(path: str) -> Path:
    directory = Path(path)
    if not directory.is_dir():
        raise EtcdUnavailable(
            f"the etcd stand-in stores its data in {directory}, which does not exist on this machine"
        )
    return directory


def _etcd_query(options: EtcdClientOptions) -> dict[str, str]:
    query = {"cacert": options.cafile, "cert": options.certfile, "key": options.keyfile}
    query = {name: value for name, value in query.items() if value}
    if not query and urlsplit(options.servers[0]).scheme == "https":
        query["tls"] = "true"
    query["compact_every"] = str(options.compaction_interval)
    return query


async def _find_store(options: EtcdClientOptions, timeout: float) -> dict[str, Any] | None:
    """Return what the stand-in describes, or `None` if a real etcd responds."""
    deadline = time.monotonic() + timeout
    while True:
        problems = []
        for server in options.servers:
            try:
                status, body = await _get(server, options)
            except (OSError, ValueError, TimeoutError, EOFError) as error:
                problems.append(f"{server}: {str(error) or type(error).__name__}")
                continue
            return json.loads(body) if status == 200 else None
        if time.monotonic() >= deadline:
            raise EtcdUnavailable(f"etcd does not respond: {'; '.join(problems)}; check --etcd-servers")
        await asyncio.sleep(_RETRY_INTERVAL)


async def _get(server: str, options: EtcdClientOptions) -> tuple[int, bytes]:
    url = urlsplit(server)
    context: ssl.SSLContext | None = None
    if url.scheme == "https":
        context = ssl.create_default_context(cafile=options.cafile or None)
        if not options.cafile:
            # As in kube-apiserver, whose etcd client then uses the CAs of the system.
            context.load_default_certs()
        if options.certfile:
            context.load_cert_chain(options.certfile, options.keyfile or None)
    async with asyncio.timeout(2.0):
        reader, writer = await asyncio.open_connection(url.hostname, url.port or 2379, ssl=context)
        try:
            writer.write(
                f"GET {STORE_PATH} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n\r\n".encode()
            )
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():
        raise ValueError("the response is not HTTP")
    return int(words[1]), body
