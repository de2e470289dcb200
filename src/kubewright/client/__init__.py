"""The client: everything that talks to an API server stands on this.

    async with Client.connect() as client:               # finds the cluster as kubectl does
        web = await client.get(Deployment, "web", namespace="shop")
        web.spec.replicas = 3
        await client.update(web)                         # the difference, guarded by resourceVersion
        async for pod in client.list(Pod, labels="app=web"):  # page by page; `await` it for the whole
            print(pod.metadata.name)

In layers, lowest first; each works without those above it:

- `kubeconfig`, `config`: where the server is; `credentials`, `exec_plugin`, `oidc`: who we are
- `transport`: the narrow interface to a server; `http`: over the network. In one process with the server:
  `kubewright.apiserver.in_process`
- `rest`: one request with its retries, rate limit, hooks, metrics and errors
- `discovery`, `mapper`: what the server has; `kinds`: how a kind is named
- `client`: `Client` (`reads`, `writes`, `streams`); `raw`: lists and watches as bytes, for caches
- `sync`: the same for scripts without a loop

An object that is written is brought up to date from the server's answer and returned; a dry run returns
another object and leaves yours alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.lazy import lazy

if TYPE_CHECKING:
    from .client import Client
    from .config import (
        ClusterConfig,
        ExecPlugin,
        Impersonation,
        Material,
        from_kubeconfig,
        in_cluster,
        load_config,
    )
    from .credentials import Credentials
    from .errors import AnswerTooLarge, ConfigError, ConnectionFailed, CredentialsError, NoKindMatch
    from .http import HTTPTransport
    from .kinds import ALL_NAMESPACES, APIResource, MetadataOf, WatchEvent, metadata_of
    from .kubeconfig import Kubeconfig
    from .listing import Items, Listing
    from .mapper import RESTMapper
    from .patches import Patch, json_patch, merge, merge_from, strategic
    from .rate_limit import TokenBucket
    from .raw import RawEvent, RawPage, RawWatch
    from .rest import REST, Call, Hook, Interceptor, Proceed, Retries
    from .streams import ExecError, ExecResult, RemoteProcess
    from .sync import SyncClient
    from .transport import Answer, Socket, Stream, Transport
    from .upserts import retry_on_conflict
    from .waiting import condition, deleted, exists, field_is
    from .watching import Backoff, Watch

__getattr__, __dir__ = lazy(
    __name__,
    {
        "client": "Client",
        "config": "ClusterConfig ExecPlugin Impersonation Material from_kubeconfig in_cluster load_config",
        "credentials": "Credentials",
        "errors": "AnswerTooLarge ConfigError ConnectionFailed CredentialsError NoKindMatch",
        "http": "HTTPTransport",
        "kinds": "ALL_NAMESPACES APIResource MetadataOf WatchEvent metadata_of",
        "kubeconfig": "Kubeconfig",
        "listing": "Items Listing",
        "mapper": "RESTMapper",
        "patches": "Patch json_patch merge merge_from strategic",
        "rate_limit": "TokenBucket",
        "raw": "RawEvent RawPage RawWatch",
        "rest": "Call Hook Interceptor Proceed REST Retries",
        "streams": "ExecError ExecResult RemoteProcess",
        "sync": "SyncClient",
        "transport": "Answer Socket Stream Transport",
        "upserts": "retry_on_conflict",
        "waiting": "condition deleted exists field_is",
        "watching": "Backoff Watch",
    },
)

__all__ = [
    "ALL_NAMESPACES",
    "REST",
    "APIResource",
    "Answer",
    "AnswerTooLarge",
    "Backoff",
    "Call",
    "Client",
    "ClusterConfig",
    "ConfigError",
    "ConnectionFailed",
    "Credentials",
    "CredentialsError",
    "ExecError",
    "ExecPlugin",
    "ExecResult",
    "HTTPTransport",
    "Hook",
    "Impersonation",
    "Interceptor",
    "Items",
    "Kubeconfig",
    "Listing",
    "Material",
    "MetadataOf",
    "NoKindMatch",
    "Patch",
    "Proceed",
    "RESTMapper",
    "RawEvent",
    "RawPage",
    "RawWatch",
    "RemoteProcess",
    "Retries",
    "Socket",
    "Stream",
    "SyncClient",
    "TokenBucket",
    "Transport",
    "Watch",
    "WatchEvent",
    "condition",
    "deleted",
    "exists",
    "field_is",
    "from_kubeconfig",
    "in_cluster",
    "json_patch",
    "load_config",
    "merge",
    "merge_from",
    "metadata_of",
    "retry_on_conflict",
    "strategic",
]
