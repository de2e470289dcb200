"""Cluster providers: which clusters are part of a fleet, and how to connect to them.

| provider | clusters |
|---|---|
| `KubeconfigSecrets` | Secrets with a kubeconfig in a namespace |
| `ClusterAPI` | `Cluster` objects of Cluster API, with their `<name>-kubeconfig` Secrets |
| `KubeconfigFiles` | the files of a directory, or the contexts of one file |
| `ClusterMap` | those that the program adds and removes |

A provider yields the complete set of clusters each time it changes, so that a set that was missed or repeated
has no effect. Write your own as a class with one async generator:

    class Inventory:
        async def clusters(self, client: Client) -> AsyncIterator[Mapping[str, ClusterConfig | Client]]:
            while True:
                yield {each.name: config_of(each) for each in await read_inventory()}
                await asyncio.sleep(30)
"""

from __future__ import annotations

import asyncio
import logging
import os
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from kubewright.api.core.v1 import Secret
from kubewright.api.declaring.declarations import Rbac
from kubewright.api.encoding.codec import ObjectHeader, encode, loads
from kubewright.cache import Cache, KindOptions
from kubewright.cache.informers.informer import Informer
from kubewright.cache.stores.store import CacheEntry, ObjectChange, ObjectKey
from kubewright.client import Client
from kubewright.client.config.cluster_config import ClusterConfig, from_kubeconfig
from kubewright.client.config.kubeconfig import Kubeconfig
from kubewright.client.errors import ConfigError
from kubewright.client.kind_types import AnyKind

logger = logging.getLogger(__name__)

ClusterSet = Mapping[str, ClusterConfig | Client]
"""Clusters by name. The fleet closes clients that it creates from configurations, and no others."""

KUBECONFIG_LABEL = "sigs.k8s.io/multicluster-runtime-kubeconfig"
"""Label of Secrets with a kubeconfig, the same as in multicluster-runtime."""
CAPI_CLUSTERS = "clusters.cluster.x-k8s.io"
CAPI_CLUSTER_LABEL = "cluster.x-k8s.io/cluster-name"
CAPI_SECRET_TYPE = "cluster.x-k8s.io/secret"  # noqa: S105 - the type of a Secret, not a password
CAPI_SUFFIX = "-kubeconfig"
_READ = ("get", "list", "watch")
_REFERENCES = (
    *("exec", "auth-provider", "tokenFile"),
    *("certificate-authority", "client-certificate", "client-key"),
)
"""Fields of a kubeconfig that run a program or contain the path of a file."""


class ClusterProvider(Protocol):
    """Reports the clusters of a fleet.

    A method `rules()` can return the `Rbac` rules that it needs in the cluster of the operator.
    """

    def clusters(self, client: Client) -> AsyncIterator[ClusterSet]:
        """Yield the complete set of clusters now and after each change.

        `client` is a client of the cluster of the operator. After an exception the method is called again
        with a growing delay, and the known clusters stay connected.
        """


class ClusterMap:
    """Clusters that the program adds and removes."""

    def __init__(self, clusters: ClusterSet | None = None) -> None:
        self._clusters = dict(clusters or {})
        self._changed: set[asyncio.Event] = set()

    def join(self, name: str, cluster: ClusterConfig | Client) -> None:
        """Add a cluster, or replace the connection to it."""
        self._clusters[name] = cluster
        self._notify()

    def leave(self, name: str) -> None:
        """Remove a cluster, if it is part of the fleet."""
        if self._clusters.pop(name, None) is not None:
            self._notify()

    def _notify(self) -> None:
        for event in self._changed:
            event.set()

    async def clusters(self, client: Client) -> AsyncIterator[ClusterSet]:
        """Yield the clusters."""
        changed = asyncio.Event()
        self._changed.add(changed)
        try:
            while True:
                changed.clear()
                yield dict(self._clusters)
                await changed.wait()
        finally:
            self._changed.discard(changed)


class _Kubeconfigs:
    """Parses kubeconfigs by cluster name; an invalid one is logged, and the last valid one stays in use."""

    def __init__(self, *, trusted: bool) -> None:
        self._trusted = trusted
        self._parsed: dict[str, tuple[bytes, ClusterConfig | None]] = {}

    def parse(self, texts: Mapping[str, bytes], origin: Mapping[str, str]) -> dict[str, ClusterConfig]:
        """Return the configurations. `origin`: where each kubeconfig is, for messages."""
        self._parsed = {name: known for name, known in self._parsed.items() if name in texts}
        for name, text in texts.items():
            before, config = self._parsed.get(name, (b"", None))
            if text == before:
                continue
            try:
                kubeconfig = Kubeconfig.parse(text, file=origin[name])
                if not self._trusted:
                    _require_inline(kubeconfig, origin[name])
                config = from_kubeconfig(kubeconfig)
            except ConfigError as error:
                logger.error(
                    "invalid kubeconfig",
                    extra={"cluster": name, "source": origin[name], "error": str(error)},
                )
                config = self._parsed.get(name, (b"", None))[1]
            self._parsed[name] = (text, config)
        return {name: config for name, (_, config) in self._parsed.items() if config is not None}


def _require_inline(kubeconfig: Kubeconfig, origin: str) -> None:
    """Reject commands and files: who can write a Secret must not run programs or read files of this pod."""
    context = kubeconfig.context()
    user = kubeconfig.user_of(context)
    fields = {**kubeconfig.cluster_of(context).data, **(user.data if user is not None else {})}
    found = [name for name in _REFERENCES if fields.get(name)]
    if found:
        raise ConfigError(
            f"{origin}: contains {', '.join(found)}; a kubeconfig in a Secret must contain the credentials "
            "themselves, because the provider does not have trusted=True"
        )


class KubeconfigSecrets:
    """Secrets with a kubeconfig; the name of a cluster is the name of its Secret."""

    def __init__(
        self,
        namespace: str,
        *,
        labels: Mapping[str, str] | None = None,
        key: str = "kubeconfig",
        trusted: bool = False,
    ) -> None:
        """`labels` select the Secrets, by default `sigs.k8s.io/multicluster-runtime-kubeconfig=true`.

        `trusted`: accept kubeconfigs that run programs (exec) or refer to files.
        """
        if not namespace:
            raise ValueError("KubeconfigSecrets requires the namespace of the Secrets")
        self.namespace = namespace
        self.labels = dict(labels) if labels is not None else {KUBECONFIG_LABEL: "true"}
        self.key = key
        self._trusted = trusted

    def rules(self) -> Iterable[Rbac]:
        """Return the rule to read the Secrets."""
        return [
            Rbac(groups=("core",), resources=("secrets",), verbs=_READ, namespace=self.namespace, where="")
        ]

    async def clusters(self, client: Client) -> AsyncIterator[ClusterSet]:
        """Yield a cluster for each Secret."""
        kubeconfigs = _Kubeconfigs(trusted=self._trusted)
        kinds: dict[AnyKind, KindOptions] = {Secret: KindOptions(labels=self.labels)}
        async with Cache(client, namespaces=[self.namespace], kinds=kinds) as cache:
            async for (secrets,) in _states(cache, Secret):
                texts: dict[str, bytes] = {}
                origin: dict[str, str] = {}
                for key, entry in secrets.items():
                    origin[key.name] = f"Secret {key}"
                    text = _data_of(entry, self.key)
                    if text is None:
                        logger.error(
                            "Secret has no kubeconfig", extra={"source": origin[key.name], "key": self.key}
                        )
                    else:
                        texts[key.name] = text
                yield kubeconfigs.parse(texts, origin)


class ClusterAPI:
    """Provisioned clusters of Cluster API; the name of a cluster is `<namespace>/<name>`.

    A cluster leaves when the deletion of its `Cluster` object starts.
    """

    def __init__(self, namespace: str = "", *, labels: Mapping[str, str] | None = None) -> None:
        """`namespace` and `labels` select the `Cluster` objects; by default all."""
        self.namespace = namespace
        self.labels = dict(labels) if labels is not None else None

    def rules(self) -> Iterable[Rbac]:
        """Return the rules to read clusters and their Secrets."""
        group = CAPI_CLUSTERS.partition(".")[2]
        return [
            Rbac(groups=(group,), resources=("clusters",), verbs=_READ, namespace=self.namespace, where=""),
            Rbac(groups=("core",), resources=("secrets",), verbs=_READ, namespace=self.namespace, where=""),
        ]

    async def clusters(self, client: Client) -> AsyncIterator[ClusterSet]:
        """Yield the clusters whose phase is `Provisioned` and that have a kubeconfig."""
        kubeconfigs = _Kubeconfigs(trusted=False)
        resource = await client.mapper.resource_for(CAPI_CLUSTERS)
        kinds: dict[AnyKind, KindOptions] = {
            resource.gvk: KindOptions(labels=self.labels),
            Secret: KindOptions(
                labels=CAPI_CLUSTER_LABEL,
                fields={"type": CAPI_SECRET_TYPE},
                transform=_without_other_secrets,
            ),
        }
        namespaces = [self.namespace] if self.namespace else None
        async with Cache(client, namespaces=namespaces, kinds=kinds, allow=[Secret]) as cache:
            async for clusters, secrets in _states(cache, resource.gvk, Secret):
                texts: dict[str, bytes] = {}
                origin: dict[str, str] = {}
                for key, entry in clusters.items():
                    secret = ObjectKey(key.namespace, f"{key.name}{CAPI_SUFFIX}")
                    found = secrets.get(secret)
                    text = _data_of(found, "value") if found is not None else None
                    if text is not None and _is_provisioned(entry):
                        texts[str(key)], origin[str(key)] = text, f"Secret {secret}"
                yield kubeconfigs.parse(texts, origin)


class KubeconfigFiles:
    """Kubeconfigs on disk. They are read again when they change; credential plug-ins are allowed.

    Each file of a directory is a cluster, named after the file without its suffix; a Secret mounted as a
    volume is such a directory. Of a single file each context is a cluster, named after the context.
    """

    def __init__(self, path: str | os.PathLike[str], *, interval: float = 5.0) -> None:
        """`interval`: seconds between checks for changes."""
        self.path = Path(path)
        self.interval = interval

    async def clusters(self, client: Client) -> AsyncIterator[ClusterSet]:
        """Yield the clusters; nothing while the path does not exist."""
        kubeconfigs = _Kubeconfigs(trusted=True)
        contexts: dict[str, ClusterConfig] = {}
        before: object = None
        while True:
            stamps, is_directory = await asyncio.to_thread(self._stamps)
            if stamps != before:
                before = stamps
                if is_directory or not stamps:
                    contexts = await asyncio.to_thread(self._read_directory, kubeconfigs)
                else:
                    contexts = await asyncio.to_thread(self._read_contexts, contexts)
                yield contexts
            await asyncio.sleep(self.interval)

    def _files(self) -> list[Path]:
        return [each for each in sorted(self.path.iterdir()) if each.name[0] != "." and each.is_file()]

    def _stamps(self) -> tuple[list[tuple[str, int, int, int]], bool]:
        """Return what changes when a file is written or replaced, and whether the path is a directory."""
        is_directory = self.path.is_dir()
        files = self._files() if is_directory else [self.path]
        found = []
        for file in files:
            try:
                stat = file.stat()
            except FileNotFoundError:
                continue
            found.append((file.name, stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return found, is_directory

    def _read_directory(self, kubeconfigs: _Kubeconfigs) -> dict[str, ClusterConfig]:
        texts: dict[str, bytes] = {}
        origin: dict[str, str] = {}
        for file in self._files() if self.path.is_dir() else ():
            name = file.stem
            if name in texts:
                logger.error("two kubeconfigs for one cluster", extra={"cluster": name, "source": str(file)})
                continue
            try:
                texts[name], origin[name] = file.read_bytes(), str(file)
            except OSError as error:
                logger.error("could not read kubeconfig", extra={"source": str(file), "error": str(error)})
        return kubeconfigs.parse(texts, origin)

    def _read_contexts(self, before: dict[str, ClusterConfig]) -> dict[str, ClusterConfig]:
        try:
            config = Kubeconfig.load([self.path], must_exist=True)
        except ConfigError as error:
            logger.error("invalid kubeconfig", extra={"source": str(self.path), "error": str(error)})
            return before
        found: dict[str, ClusterConfig] = {}
        for name in config.contexts:
            try:
                found[name] = from_kubeconfig(config, context=name)
            except ConfigError as error:
                logger.error(
                    "invalid kubeconfig",
                    extra={"cluster": name, "source": str(self.path), "error": str(error)},
                )
                if name in before:
                    found[name] = before[name]
        return found


async def _states(cache: Cache, *kinds: AnyKind) -> AsyncIterator[list[dict[ObjectKey, CacheEntry]]]:
    """Yield the objects of kinds now and after each change; changes in quick succession are one."""
    informers: list[Informer] = [await cache.informer(kind) for kind in kinds]
    for informer in informers:
        await informer.wait_for_sync()
    changed = asyncio.Event()
    handler: Callable[[ObjectChange], None] = lambda change: changed.set()  # noqa: E731
    for informer in informers:
        informer.add_handler(handler, resync=0)
    try:
        while True:
            changed.clear()
            yield [dict(informer.store.entries()) for informer in informers]
            await changed.wait()
    finally:
        for informer in informers:
            informer.remove_handler(handler)


def _data_of(entry: CacheEntry, key: str) -> bytes | None:
    """Return one value of the data of a Secret."""
    value = (loads(entry.raw).get("data") or {}).get(key)
    return b64decode(value) if value else None


def _is_provisioned(entry: CacheEntry) -> bool:
    cluster: dict[str, Any] = loads(entry.raw)
    if cluster["metadata"].get("deletionTimestamp"):
        return False
    return (cluster.get("status") or {}).get("phase") == "Provisioned"


def _without_other_secrets(raw: bytes, header: ObjectHeader) -> bytes:
    """Drop the data of Secrets of Cluster API that are not kubeconfigs, such as private keys of the CA."""
    secret: dict[str, Any] = loads(raw)
    secret["metadata"].pop("managedFields", None)
    if not secret["metadata"]["name"].endswith(CAPI_SUFFIX):
        secret.pop("data", None)
    return encode(secret)
