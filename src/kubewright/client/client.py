"""`Client`: every verb, for objects of every kind, and the decorators that shape it.

One client serves typed classes, `Unstructured` and metadata alike (see `kinds`). It is cheap to copy: each
decorator gives another client over the same connections.

    shop = client.namespaced("shop").field_owner("shop-operator")
    await shop.dry_run().apply(deployment)
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

from .config import ClusterConfig, load_config
from .core import Settings, Target
from .http import HTTPTransport
from .http1 import MAX_ANSWER
from .metrics import ClientMetrics
from .patches import merge
from .rate_limit import TokenBucket
from .reads import Reader
from .rest import REST, Hook, Interceptor, Retries
from .streams import Streams
from .subresources import Subresource
from .transport import Transport
from .upserts import Mutate, Outcome, create_or_patch, create_or_update
from .writes import Writer

if TYPE_CHECKING:
    from kubewright.api.autoscaling.v1 import Scale

UpsertT = TypeVar("UpsertT", bound=MetaObject | Unstructured)


class Client(Reader, Writer, Streams):
    """A client of one API server. Close it, or use it in `async with`."""

    @classmethod
    def connect(
        cls,
        kubeconfig: str | os.PathLike[str] | ClusterConfig | None = None,
        *,
        context: str = "",
        retries: Retries | None = None,
        rate_limit: TokenBucket | None = None,
        hooks: Sequence[Hook] = (),
        user_agent: str = "",
        on_warning: Callable[[str], None] | None = None,
        metrics: bool = True,
        registry: Any = None,
        tracing: bool = False,
        max_answer: int = MAX_ANSWER,
    ) -> Self:
        """A client for the cluster that kubectl would talk to, or for a kubeconfig or configuration given.

        Connections are made when they are needed. Metrics go to the default Prometheus registry unless
        another is given; `tracing` makes OpenTelemetry spans. An answer of more than `max_answer` bytes is
        `AnswerTooLarge`; watches and logs go on for ever.
        """
        config = (
            kubeconfig if isinstance(kubeconfig, ClusterConfig) else load_config(kubeconfig, context=context)
        )
        return cls.over(
            HTTPTransport(config, max_answer=max_answer),
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
    def over(
        cls,
        transport: Transport,
        *,
        namespace: str = "default",
        server: str = "the server",
        retries: Retries | None = None,
        rate_limit: TokenBucket | None = None,
        hooks: Sequence[Hook] = (),
        user_agent: str = "",
        on_warning: Callable[[str], None] | None = None,
        metrics: ClientMetrics | None = None,
        tracer: Any = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> Self:
        """A client over any transport, for instance one to a server in this process."""
        rest = REST(
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
        return cls(rest, settings=Settings(namespace=namespace))

    async def aclose(self) -> None:
        """Close the connections, also those of clients made from this one."""
        await self.rest.transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def namespaced(self, namespace: str) -> Self:
        """A client for one namespace: objects of others are refused, lists and watches stay inside."""
        return self._with(namespace=namespace, only_namespace=True)

    def default_namespace(self, namespace: str) -> Self:
        """A client that looks in this namespace where none is given."""
        return self._with(namespace=namespace, only_namespace=False)

    def dry_run(self) -> Self:
        """A client whose writes are checked and answered but not kept."""
        return self._with(dry_run=True)

    def field_owner(self, owner: str) -> Self:
        """A client whose writes are recorded under this field manager."""
        return self._with(field_owner=owner)

    def field_validation(self, mode: Literal["Strict", "Warn", "Ignore"]) -> Self:
        """A client that has unknown fields refused, warned about or ignored."""
        return self._with(field_validation=mode)

    def intercepted(self, interceptor: Interceptor) -> Self:
        """A client with something around each call; the last one added is the outermost."""
        return self._with(interceptors=(*self.settings.interceptors, interceptor))

    def with_timeout(self, seconds: float) -> Self:
        """A client that gives each request this long."""
        return self._with(timeout=seconds)

    def impersonating(
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
        self, subresource: str, target: Target, name: str = "", namespace: str | None = None
    ) -> Subresource:
        """A subresource of an object, or of a kind and name: `client.subresource("eviction", pod)`."""
        return Subresource(self, subresource, target, name, namespace)

    async def scale(
        self, target: Target, name: str = "", namespace: str | None = None, *, replicas: int | None = None
    ) -> Scale:
        """How many replicas an object has and wants; with `replicas`, ask for so many."""
        from kubewright.api.autoscaling.v1 import Scale

        part = self.subresource("scale", target, name, namespace)
        if replicas is None:
            return await part.get(Scale)
        return await part.patch(merge({"spec": {"replicas": replicas}}), Scale)

    async def create_or_update(self, obj: UpsertT, mutate: Mutate) -> tuple[UpsertT, Outcome]:
        """Have `mutate` bring the object into the wanted state, then create it, update it, or leave it.

        `obj` needs its kind, name and namespace; `mutate` gets the object as the server has it (or a copy of
        `obj`) and changes it in place, again if somebody else was faster.
        """
        return await create_or_update(self, obj, mutate)

    async def create_or_patch(self, obj: UpsertT, mutate: Mutate) -> tuple[UpsertT, Outcome]:
        """As `create_or_update`, but unlocked: only what `mutate` changed is sent, status included."""
        return await create_or_patch(self, obj, mutate)

    async def version(self) -> dict[str, Any]:
        """What the server says of its version."""
        from kubewright.api import codec

        from .rest import Call

        answer = await self.rest.send(Call("get", "GET", "/version"))
        document: dict[str, Any] = codec.loads(answer.body)
        return document


def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        raise RuntimeError("tracing needs OpenTelemetry: pip install kubewright[tracing]") from None
    return trace.get_tracer("kubewright.client")


__all__ = ["Client"]
