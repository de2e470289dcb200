"""`Client`: every verb, for objects of every kind, and the methods that derive clients with other options.

One client serves typed classes, `Unstructured` and metadata (see `kind_types`). Deriving a client is cheap;
it shares the connections:

    shop = client.in_namespace("shop").with_field_manager("shop-operator")
    await shop.with_dry_run().apply(deployment)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from kubewright.api.encoding import codec
from kubewright.api.unstructured import Unstructured
from kubewright.deprecation import renamed_parameter, warn_deprecated

from .patches import merge_patch
from .rest.request import APIRequest, Interceptor, RequestHook
from .rest.rest_client import RESTClient
from .transport.interface import MAX_RESPONSE_BYTES, Transport
from .verbs.base import ClientOptions
from .verbs.pods import PodVerbs
from .verbs.read import ReadVerbs
from .verbs.write import WriteVerbs

if TYPE_CHECKING:
    import os
    import random

    from prometheus_client import CollectorRegistry

    from kubewright.api.autoscaling.v1 import Scale
    from kubewright.api.unstructured import Unstructured

    from .arguments import FieldValidation
    from .config.cluster_config import ClusterConfig
    from .kind_types import ObjectOrKind
    from .rest.metrics import ClientMetrics
    from .rest.rate_limit import TokenBucket
    from .rest.retry_policy import RetryPolicy
    from .verbs.create_or_update import OperationResult, UpsertT
    from .verbs.subresource import SubresourceClient


class Client(ReadVerbs, WriteVerbs, PodVerbs):
    """A client of one API server. Close it, or use it in `async with`."""

    @classmethod
    def connect(
        cls,
        kubeconfig: str | os.PathLike[str] | ClusterConfig | None = None,
        *,
        context: str = "",
        retries: RetryPolicy | None = None,
        rate_limit: TokenBucket | None = None,
        hooks: Sequence[RequestHook] = (),
        user_agent: str = "",
        on_warning: Callable[[str], None] | None = None,
        metrics: bool = True,
        registry: CollectorRegistry | None = None,
        tracing: bool = False,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        compress_watch_lists: bool = False,
        cbor: bool = False,
    ) -> Self:
        """Return a client for the cluster that kubectl would use, or for a kubeconfig or configuration.

        Connections are opened when they are needed. Metrics are registered in the default Prometheus registry
        unless another is given; `tracing` creates OpenTelemetry spans. A response longer than
        `max_response_bytes` raises `ResponseTooLarge`; watches and logs are not limited.
        `compress_watch_lists` accepts gzip for watches with initial events; Kubernetes 1.37 compresses them.
        `cbor` uses CBOR instead of JSON on the connection where the server offers it.
        """
        # Not needed by clients over other transports, such as those of a control plane.
        from urllib.parse import urlsplit

        from .config.cluster_config import ClusterConfig, load_config
        from .rest.metrics import ClientMetrics
        from .transport.http import HTTPTransport

        config = (
            kubeconfig if isinstance(kubeconfig, ClusterConfig) else load_config(kubeconfig, context=context)
        )
        transport: Transport = HTTPTransport(
            config, max_response_bytes=max_response_bytes, compress_watch_lists=compress_watch_lists
        )
        if cbor:
            from .transport.cbor import CBORTransport

            transport = CBORTransport(transport)
        client = cls.from_transport(
            transport,
            namespace=config.namespace,
            server=config.server,
            retries=retries,
            rate_limit=rate_limit,
            hooks=hooks,
            user_agent=user_agent,
            on_warning=on_warning,
            metrics=ClientMetrics(urlsplit(config.server).netloc, registry) if metrics else None,
        )
        if not tracing:
            return client
        from kubewright.tracing.opentelemetry import OpenTelemetrySink

        from .rest.call_spans import CallPublisher

        return client.with_interceptor(CallPublisher((OpenTelemetrySink(),)))

    @classmethod
    def from_transport(
        cls,
        transport: Transport,
        *,
        namespace: str = "default",
        server: str = "",
        retries: RetryPolicy | None = None,
        rate_limit: TokenBucket | None = None,
        hooks: Sequence[RequestHook] = (),
        user_agent: str = "",
        on_warning: Callable[[str], None] | None = None,
        metrics: ClientMetrics | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> Self:
        """Return a client over any transport, for example one to a server in the same process."""
        rest = RESTClient(
            transport,
            server=server,
            retries=retries,
            rate_limit=rate_limit,
            hooks=hooks,
            user_agent=user_agent,
            on_warning=on_warning,
            metrics=metrics,
            sleep=sleep,
            rng=rng,
        )
        return cls(rest, options=ClientOptions(namespace=namespace))

    async def aclose(self) -> None:
        """Close the connections, also those of derived clients."""
        await self.rest.transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def in_namespace(self, namespace: str) -> Self:
        """Derive a client restricted to one namespace: other namespaces are rejected, lists stay inside."""
        return self._with(namespace=namespace, only_namespace=True)

    def with_default_namespace(self, namespace: str) -> Self:
        """Derive a client for which `namespace=None` means this namespace, in lists and watches too.

        `namespace=ALL_NAMESPACES` lists all of them.
        """
        return self._with(namespace=namespace, collections_in_namespace=True, only_namespace=False)

    def with_dry_run(self) -> Self:
        """Derive a client whose writes are validated by the server but not stored."""
        return self._with(dry_run=True)

    def with_field_manager(self, field_manager: str) -> Self:
        """Derive a client whose writes are recorded under this field manager."""
        return self._with(field_manager=field_manager)

    def with_field_owner(self, field_owner: str) -> Self:
        """Call `with_field_manager`. Deprecated."""
        warn_deprecated("with_field_owner", "with_field_manager")
        return self.with_field_manager(field_owner)

    def with_field_validation(self, mode: FieldValidation) -> Self:
        """Derive a client for which the server rejects, warns about or ignores unknown fields."""
        return self._with(field_validation=mode)

    def with_interceptor(self, interceptor: Interceptor) -> Self:
        """Derive a client that calls `interceptor` around each request; the last one added is outermost."""
        return self._with(interceptors=(*self.options.interceptors, interceptor))

    def with_timeout(self, seconds: float) -> Self:
        """Derive a client with this timeout for each request."""
        return self._with(timeout=seconds)

    def with_impersonation(
        self,
        user: str,
        groups: Sequence[str] = (),
        *,
        uid: str = "",
        extra: Mapping[str, Sequence[str]] | None = None,
    ) -> Self:
        """Derive a client that impersonates another user; needs the impersonate permission."""
        from .transport.headers import escape_key

        headers = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
        if uid:
            headers.append(("Impersonate-Uid", uid))
        for key, values in (extra or {}).items():
            headers += [(f"Impersonate-Extra-{escape_key(key)}", value) for value in values]
        others = [each for each in self.options.headers if not each[0].startswith("Impersonate-")]
        return self._with(headers=(*others, *headers))

    def subresource(
        self, subresource: str, target: ObjectOrKind, name: str | None = None, *, namespace: str | None = None
    ) -> SubresourceClient:
        """Return a client of a subresource of an object, or of a kind and name.

        `client.subresource("eviction", pod)`, `client.subresource("token", ServiceAccount, "build")`.
        """
        from .verbs.subresource import SubresourceClient

        return SubresourceClient(self, subresource, target, name, namespace=namespace)

    async def scale(
        self,
        target: ObjectOrKind,
        name: str | None = None,
        *,
        namespace: str | None = None,
        replicas: int | None = None,
    ) -> Scale:
        """Return the scale of an object; with `replicas`, set it first."""
        from kubewright.api.autoscaling.v1 import Scale

        scale = self.subresource("scale", target, name, namespace=namespace)
        if replicas is None:
            return await scale.get(Scale)
        return await scale.patch(merge_patch({"spec": {"replicas": replicas}}), Scale)

    async def create_or_update(
        self, obj: UpsertT, mutate: Callable[[UpsertT], object]
    ) -> tuple[UpsertT, OperationResult]:
        """Create or update an object so that it is as `mutate` sets it.

        `obj` needs its kind, name and namespace. `mutate`, a function or coroutine function, gets the object
        of the server (or a copy of `obj`) and changes it in place; it is called again after a conflict.
        """
        from .verbs.create_or_update import create_or_update

        return await create_or_update(self, obj, mutate)

    async def create_or_patch(
        self, obj: UpsertT, mutate: Callable[[UpsertT], object]
    ) -> tuple[UpsertT, OperationResult]:
        """As `create_or_update`, without optimistic lock; sends only the changes, status included."""
        from .verbs.create_or_update import create_or_patch

        return await create_or_patch(self, obj, mutate)

    @renamed_parameter("field_owner", "field_manager")
    async def apply_yaml(
        self,
        source: str | os.PathLike[str],
        *,
        namespace: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        field_manager: str = "",
    ) -> list[Unstructured]:
        """Server-side apply the objects of a manifest, in order, and return them.

        `source` is a file, a directory, or YAML or JSON text; it can have several documents and `kind: List`.
        `namespace` is for objects that have none. The field manager is that of the client, or `kubewright`.
        Custom resources can follow their CRD in one manifest. Raises `ManifestError` before anything is
        applied; other errors have a note with the object and the number of objects applied before.
        """
        from .verbs.apply_yaml import apply_yaml

        return await apply_yaml(
            self, source, namespace=namespace, force=force, dry_run=dry_run, field_manager=field_manager
        )

    async def version(self) -> dict[str, str]:
        """Return the version of the server: `major`, `minor`, `gitVersion` and so on."""
        response = await self.rest.send(APIRequest("get", "GET", "/version"))
        version: dict[str, str] = codec.loads(response.body)
        return version
