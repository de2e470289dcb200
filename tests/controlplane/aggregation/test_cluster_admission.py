"""Admission of the host cluster for the resources of an extension API server."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kubewright.api import CustomResource, ObjectMeta, Spec, resource
from kubewright.api.core.v1 import ConfigMap, Namespace
from kubewright.api.errors import APIError, BadRequest, Forbidden, Invalid, NotFound
from kubewright.api.unstructured import Unstructured
from kubewright.apiserver import AlwaysAllow, APIServer, HTTPRequest, HTTPResponse, resource_of
from kubewright.apiserver.http.server import HTTPServer
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.client import Client
from kubewright.controlplane import ClusterAdmission, ControlPlane
from kubewright.storage import MemoryStorage

GROUP = "pizza.example.com"
ADMISSION = "admissionregistration.k8s.io/v1"
RULE = {"apiGroups": [GROUP], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pizzas"]}


class PizzaSpec(Spec):
    topping: str
    size: int = 30


@resource(group=GROUP, version="v1", storage=True)
class Pizza(CustomResource[PizzaSpec, None]):
    """A pizza."""


def pizza(name: str, topping: str = "cheese", namespace: str = "default") -> Pizza:
    return Pizza(metadata=ObjectMeta(name=name, namespace=namespace), spec=PizzaSpec(topping=topping))


def configuration(kind: str, name: str, **fields: Any) -> Unstructured:
    return Unstructured({"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}, **fields})


@pytest.fixture
async def cluster() -> AsyncIterator[Client]:
    async with ControlPlane(port=None) as plane:
        yield Client.from_transport(InProcessTransport(plane.server))


@pytest.fixture
async def server() -> AsyncIterator[APIServer]:
    server = APIServer(MemoryStorage())
    server.add(resource_of(Pizza))
    async with server:
        yield server


@pytest.fixture
async def pizzeria(cluster: Client, server: APIServer) -> AsyncIterator[Client]:
    """A client of the extension API server."""
    async with ClusterAdmission(cluster, server):
        yield Client.from_transport(InProcessTransport(server))


async def eventually_raises(error: type[APIError], text: str, write: Callable[[], Awaitable[Any]]) -> None:
    """Wait until a write is rejected: configuration of the cluster is watched."""
    async with asyncio.timeout(60):
        while True:
            try:
                await write()
            except error as raised:
                found = raised.message
                break
            await asyncio.sleep(0.01)
    assert text in found


async def test_namespace_must_exist(cluster: Client, pizzeria: Client) -> None:
    with pytest.raises(NotFound, match='namespaces "naples" not found'):
        await pizzeria.create(pizza("margherita", namespace="naples"))
    await cluster.create(Namespace(metadata=ObjectMeta(name="naples")))
    await pizzeria.create(pizza("margherita", namespace="naples"))


async def test_nothing_is_created_in_a_terminating_namespace(cluster: Client, pizzeria: Client) -> None:
    await cluster.create(Namespace(metadata=ObjectMeta(name="naples")))
    held = ObjectMeta(name="held", namespace="naples", finalizers=["example.com/hold"])
    await cluster.create(ConfigMap(metadata=held))
    await cluster.delete(Namespace, "naples")
    names = iter(range(10_000))
    await eventually_raises(
        Forbidden,
        "unable to create new content in namespace naples because it is being terminated",
        lambda: pizzeria.create(pizza(f"p{next(names)}", namespace="naples")),
    )


async def test_validating_policy_with_parameters_of_the_cluster(cluster: Client, pizzeria: Client) -> None:
    await cluster.create(
        ConfigMap(metadata=ObjectMeta(name="menu", namespace="default"), data={"forbidden": "pineapple"})
    )
    await cluster.create(
        configuration(
            "ValidatingAdmissionPolicy",
            "menu",
            spec={
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "matchConstraints": {"resourceRules": [RULE]},
                "validations": [
                    {
                        "expression": "object.spec.topping != params.data.forbidden",
                        "messageExpression": "'no ' + params.data.forbidden",
                    }
                ],
            },
        )
    )
    await cluster.create(
        configuration(
            "ValidatingAdmissionPolicyBinding",
            "menu",
            spec={
                "policyName": "menu",
                "validationActions": ["Deny"],
                "paramRef": {
                    "name": "menu",
                    "namespace": "default",
                    "parameterNotFoundAction": "Deny",
                },
            },
        )
    )
    names = iter(range(10_000))
    await eventually_raises(
        Invalid,
        "ValidatingAdmissionPolicy 'menu' with binding 'menu' denied request: no pineapple",
        lambda: pizzeria.create(pizza(f"hawaii-{next(names)}", "pineapple")),
    )
    await pizzeria.create(pizza("margherita"))


async def test_mutating_policy(cluster: Client, pizzeria: Client) -> None:
    await cluster.create(
        configuration(
            "MutatingAdmissionPolicy",
            "large",
            spec={
                "matchConstraints": {"resourceRules": [RULE]},
                "reinvocationPolicy": "Never",
                "failurePolicy": "Fail",
                "mutations": [
                    {
                        "patchType": "ApplyConfiguration",
                        "applyConfiguration": {"expression": "Object{spec: Object.spec{size: 50}}"},
                    }
                ],
            },
        )
    )
    await cluster.create(
        configuration("MutatingAdmissionPolicyBinding", "large", spec={"policyName": "large"})
    )
    async with asyncio.timeout(60):
        number = 0
        while (await pizzeria.create(pizza(f"p{number}"))).spec.size != 50:
            number += 1
            await asyncio.sleep(0.01)


async def test_webhook_of_a_service_is_resolved(cluster: Client, server: APIServer) -> None:
    reviewed: list[dict[str, Any]] = []

    async def review(request: HTTPRequest) -> HTTPResponse:
        asked = json.loads(await request.read(1 << 20))["request"]
        reviewed.append(asked)
        denied = {"uid": asked["uid"], "allowed": False, "status": {"message": "closed on Mondays"}}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": denied}
        return HTTPResponse(200, json.dumps(body).encode())

    hooks = APIServer(MemoryStorage(), authorizer=AlwaysAllow())
    hooks.add_handler("/review", review)
    async with hooks:
        https = HTTPServer(hooks, port=0, hosts=("hours.default.svc",))
        await https.start()
        try:
            async with ClusterAdmission(cluster, server, resolve={"hours.default": https.url}):
                pizzeria = Client.from_transport(InProcessTransport(server))
                webhook = {
                    "name": "hours.example.com",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "rules": [RULE],
                    "clientConfig": {
                        "service": {"name": "hours", "namespace": "default", "path": "/review"},
                        "caBundle": base64.b64encode(https.authority_pem).decode(),
                    },
                }
                await cluster.create(
                    configuration("ValidatingWebhookConfiguration", "hours", webhooks=[webhook])
                )
                names = iter(range(10_000))
                await eventually_raises(
                    BadRequest,
                    'admission webhook "hours.example.com" denied the request: closed on Mondays',
                    lambda: pizzeria.create(pizza(f"p{next(names)}")),
                )
        finally:
            await https.stop(0.1)
    assert reviewed[0]["resource"] == {"group": GROUP, "version": "v1", "resource": "pizzas"}


async def test_disabled_plugins(cluster: Client, server: APIServer) -> None:
    with pytest.raises(ValueError, match="unknown admission plug-ins"):
        ClusterAdmission(cluster, server, disable=["Nonsense"])
    async with ClusterAdmission(cluster, server, disable=["NamespaceLifecycle"]):
        pizzeria = Client.from_transport(InProcessTransport(server))
        await pizzeria.create(pizza("margherita", namespace="naples"))
        assert "ValidatingAdmissionWebhook" in [each.name for each in server.admission.plugins]
    assert server.admission.plugins == []
