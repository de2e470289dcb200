"""The broker as a fake application, and a scenario with it: `kubewright explore queues:operator`."""

from __future__ import annotations

from kubewright.explore import Steps, scenario
from kubewright.testing.applications import FakeHTTP, FakeRequest

broker = FakeHTTP("broker", port=8080)


@broker.route("GET", "/queues/{name}")
def get_queue(request: FakeRequest) -> object:
    """Return a queue."""
    return request.data.get(request.path["name"]) or 404


@broker.route("PUT", "/queues/{name}")
def put_queue(request: FakeRequest) -> object:
    """Create a queue, or change its limit; messages remain."""
    name, wanted = request.path["name"], request.json()
    known = request.data.get(name, {"messages": 0})
    request.data[name] = {**known, "maxLength": wanted["maxLength"]}
    return 201


@broker.route("POST", "/queues/{name}/messages")
def send(request: FakeRequest) -> object:
    """Add messages."""
    queue = request.data.get(request.path["name"])
    if queue is None:
        return 404
    queue["messages"] += request.json()["count"]
    return 202


@broker.route("DELETE", "/queues/{name}")
def delete_queue(request: FakeRequest) -> object:
    """Delete a queue."""
    return 204 if request.data.pop(request.path["name"], None) is not None else 404


@scenario(applications=[broker], timeout=600, tolerate=["Queue:status.conditions"])
async def orders(steps: Steps) -> None:
    """Create a queue, and change its limit."""
    queue = {
        "apiVersion": "messaging.example.com/v1",
        "kind": "Queue",
        "metadata": {"name": "orders", "namespace": "default"},
        "spec": {"maxLength": 10},
    }
    await steps.apply(queue)
    await steps.advance("2m")
    await steps.patch(
        "Queue.messaging.example.com", "orders", {"spec": {"maxLength": 50}}, namespace="default"
    )
    await steps.advance("5m")
