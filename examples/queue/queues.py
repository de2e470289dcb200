"""An operator of queues in a message broker: each Queue exists there, and has enough consumers.

The broker has an HTTP API. A queue that the broker has lost, for example in a restart, is created again; the
number of consumers follows the number of messages.
"""

from __future__ import annotations

import math
import os
from typing import Annotated

import aiohttp

from kubewright import (
    Condition,
    Context,
    CustomResource,
    ObjectMeta,
    Operator,
    Result,
    Spec,
    Status,
    resource,
    set_condition,
)
from kubewright.api import Ge, ListMap
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import Container, PodSpec, PodTemplateSpec
from kubewright.api.meta import LabelSelector

BROKER = os.environ.get("BROKER_URL", "http://broker:8080")
CHECK_SECONDS = 30
TIMEOUT = aiohttp.ClientTimeout(total=10)


class QueueSpec(Spec):
    """Desired state of a queue."""

    max_length: Annotated[int, Ge(1)] = 1000
    """Messages after which the broker rejects more."""
    messages_per_consumer: Annotated[int, Ge(1)] = 100
    max_consumers: Annotated[int, Ge(1)] = 5
    image: str = "consumer:1"


class QueueStatus(Status):
    """Observed state of a queue."""

    messages: int | None = None
    conditions: Annotated[list[Condition], ListMap("type")] | None = None


@resource(group="messaging.example.com", version="v1")
class Queue(CustomResource[QueueSpec, QueueStatus]):
    """A queue with consumers."""


operator = Operator("queues")


async def connect() -> aiohttp.ClientSession:
    """Return the client of the broker; it is closed when the operator stops."""
    return aiohttp.ClientSession(timeout=TIMEOUT)


operator.provide(aiohttp.ClientSession, connect)


def consumers(queue: Queue, messages: int) -> Deployment:
    """Return the Deployment of the consumers."""
    spec = queue.spec
    replicas = min(max(math.ceil(messages / spec.messages_per_consumer), 1), spec.max_consumers)
    labels = {"queue": queue.name}
    pod = PodSpec(containers=[Container(name="consumer", image=spec.image, args=[queue.name])])
    return Deployment(
        metadata=ObjectMeta(name=f"{queue.name}-consumers"),
        spec=DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=pod),
        ),
    )


@operator.reconcile(Queue, owns=(Deployment,))
async def reconcile(queue: Queue, ctx: Context[Queue], broker: aiohttp.ClientSession) -> Result:
    """Create the queue if it is missing or different, and scale its consumers."""
    url = f"{BROKER}/queues/{queue.namespace}.{queue.name}"
    wanted = {"maxLength": queue.spec.max_length}
    try:
        found = await read(broker, url)
        if found is None or found["maxLength"] != queue.spec.max_length:
            async with broker.put(url, json=wanted) as response:
                response.raise_for_status()
            found = await read(broker, url)
        if found is None:
            raise ConnectionError("the broker has not stored the queue")
    except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
        report(queue, "False", "BrokerUnavailable", type(error).__name__)
        await ctx.update_status()
        return Result(requeue_after=CHECK_SECONDS)
    queue.status.messages = found["messages"]
    report(queue, "True", "Created", "the queue exists")
    await ctx.ensure([consumers(queue, found["messages"])])
    await ctx.update_status()
    return Result(requeue_after=CHECK_SECONDS)


@operator.finalize(Queue)
async def delete_queue(queue: Queue, broker: aiohttp.ClientSession) -> None:
    """Delete the queue from the broker."""
    async with broker.delete(f"{BROKER}/queues/{queue.namespace}.{queue.name}") as response:
        if response.status != 404:
            response.raise_for_status()


async def read(broker: aiohttp.ClientSession, url: str) -> dict[str, int] | None:
    """Return the queue in the broker; `None` if it does not exist."""
    async with broker.get(url) as response:
        if response.status == 404:
            return None
        response.raise_for_status()
        found: dict[str, int] = await response.json()
        return found


def report(queue: Queue, status: str, reason: str, message: str) -> None:
    """Set the condition."""
    set_condition(queue.status, Condition(type="Ready", status=status, reason=reason, message=message))
