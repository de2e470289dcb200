"""`Client`: every verb, for objects of every kind, and the decorators that shape it.

One client serves typed classes, `Unstructured` and metadata alike (see `kinds`). It is cheap to copy: each
decorator gives another client over the same connections.

    shop = client.in_namespace("shop").with_field_owner("shop-operator")
    await shop.with_dry_run().apply(deployment)
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from urllib.parse import quote, urlsplit

from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured

from .config.cluster_config import ClusterConfig, load_config
from .patches import merge_patch
from .rest.metrics import ClientMetrics
from .rest.rate_limit import TokenBucket
from .rest.rest_client import Interceptor, RequestHook, RESTClient, RetryPolicy
from .streams.exec import PodVerbs
from .transport.http import HTTPTransport
from .transport.http1 import MAX_RESPONSE_BYTES
from .transport.interface import Transport
from .verbs.base import ClientOptions, ObjectOrKind
from .verbs.create_or_update import MutateFunction, OperationResult, create_or_patch, create_or_update
from .verbs.read import ReadVerbs
from .verbs.subresource import SubresourceClient
from .verbs.write import WriteVerbs

if TYPE_CHECKING:
    from kubewright.api.autoscaling.v1 import Scale

UpsertT = TypeVar("UpsertT", bound=MetaObject | Unstructured)


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
        registry: Any = None,
        tracing: bool = False,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> Self:
        """A client for the cluster that kubectl would talk to, or for a kubeconfig or configuration given.

        Connections are made when they are needed. Metrics go to the default Prometheus registry unless
        another is given; `tracing` makes OpenTelemetry spans. A response longer than
        `max_response_bytes` raises `ResponseTooLarge`; watches and logs are not limited.
        """
        config = (
            kubeconfig if isinstance(kubeconfig, ClusterConfig) else load_config(kubeconfig, context=context)
        )
        return cls.from_transport(
            HTTPTransport(config, max_response_bytes=max_response_bytes),
            namespace=config.namespace,
            server=config.server,
            retries=retries,
            rate_limit=rate_limit,
            hooks=hooks,
            user_agent=user_agent,
            on_warning=on_warning,
            metrics=ClientMetrics(urlsplit(config.server).netloc, registry) if metrics else None,
            tracer=_tracer() if tracing else None,
        )

    @classmethod
    def from_transport(
        cls,
        transport: Transport,
        *,
        namespace: str = "default",
        server: str = "the server",
        retries: RetryPolicy | None = None,
        rate_limit: TokenBucket | None = None,
        hooks: Sequence[RequestHook] = (),
        user_agent: str = "",
        on_warning: Callable[[str], None] | None = None,
        metrics: ClientMetrics | None = None,
        tracer: Any = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> Self:
        """A client over any transport, for instance one to a server in this process."""
        rest = RESTClient(
            transport,
            server=server,
            retries=retries,
            rate_limit=rate_limit,
            hooks=hooks,
            user_agent=user_agent,
            on_warning=on_warning,
            metrics=metrics,
            tracer=tracer,
            sleep=sleep,
            rng=rng,
        )
        return cls(rest, settings=ClientOptions(namespace=namespace))

    async def aclose(self) -> None:
        """Close the connections, also those of clients made from this one."""
        await self.rest.transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def in_namespace(self, namespace: str) -> Self:
        """A client for one namespace: objects of others are refused, lists and watches stay inside."""
        return self._with(namespace=namespace, only_namespace=True)

    def with_default_namespace(self, namespace: str) -> Self:
        """A client that looks in this namespace where none is given."""
        return self._with(namespace=namespace, only_namespace=False)

    def with_dry_run(self) -> Self:
        """A client whose writes are checked and answered but not kept."""
        return self._with(dry_run=True)

    def with_field_owner(self, owner: str) -> Self:
        """A client whose writes are recorded under this field manager."""
        return self._with(field_owner=owner)

    def with_field_validation(self, mode: Literal["Strict", "Warn", "Ignore"]) -> Self:
        """A client that has unknown fields refused, warned about or ignored."""
        return self._with(field_validation=mode)

    def with_interceptor(self, interceptor: Interceptor) -> Self:
        """A client with something around each call; the last one added is the outermost."""
        return self._with(interceptors=(*self.settings.interceptors, interceptor))

    def with_timeout(self, seconds: float) -> Self:
        """A client that gives each request this long."""
        return self._with(timeout=seconds)

    def with_impersonation(
        self,
        user: str,
        groups: Sequence[str] = (),
        *,
        uid: str = "",
        extra: Mapping[str, Sequence[str]] | None = None,
    ) -> Self:
        """A client that acts as somebody else; the server checks that you may."""
        headers = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
        if uid:
            headers.append(("Impersonate-Uid", uid))
        for key, values in (extra or {}).items():
            headers += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
        kept = [each for each in self.settings.headers if not each[0].startswith("Impersonate-")]
        return self._with(headers=(*kept, *headers))

    def subresource(
        self, subresource: str, target: ObjectOrKind, name: str = "", namespace: str | None = None
    ) -> SubresourceClient:
        """A subresource of an object, or of a kind and name: `client.subresource("eviction", pod)`."""
        return SubresourceClient(self, subresource, target, name, namespace)

    async def scale(
        self,
        target: ObjectOrKind,
        name: str = "",
        namespace: str | None = None,
        *,
        replicas: int | None = None,
    ) -> Scale:
        """How many replicas an object has and wants; with `replicas`, ask for so many."""
        from kubewright.api.autoscaling.v1 import Scale

        part = self.subresource("scale", target, name, namespace)
        if replicas is None:
            return await part.get(Scale)
        return await part.patch(merge_patch({"spec": {"replicas": replicas}}), Scale)

    async def create_or_update(self, obj: UpsertT, mutate: MutateFunction) -> tuple[UpsertT, OperationResult]:
        """Have `mutate` bring the object into the wanted state, then create it, update it, or leave it.

        `obj` needs its kind, name and namespace; `mutate` gets the object as the server has it (or a copy of
        `obj`) and changes it in location, again if somebody else was faster.
        """
        return await create_or_update(self, obj, mutate)

    async def create_or_patch(self, obj: UpsertT, mutate: MutateFunction) -> tuple[UpsertT, OperationResult]:
        """As `create_or_update`, but unlocked: only what `mutate` changed is sent, status included."""
        return await create_or_patch(self, obj, mutate)

    async def version(self) -> dict[str, Any]:
        """What the server says of its version."""
        from kubewright.api import codec

        from .rest.rest_client import APIRequest

        answer = await self.rest.send(APIRequest("get", "GET", "/version"))
        document: dict[str, Any] = codec.loads(answer.body)
        return document


def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        raise RuntimeError("tracing needs OpenTelemetry: pip install kubewright[tracing]") from None
    return trace.get_tracer("kubewright.client")


__all__ = ["Client"]
