"""Objects that decide on requests, and whose stored value cannot be decoded: nothing is allowed without them.

While a server runs, their last state stays in force. After a restart their state is not known: what depends
on them is rejected, and `/readyz` names them. They are deleted with
`ignoreStoreReadErrorWithClusterBreakingPotential`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.controlplane.path_client import PathClient

from kubewright.api.errors import APIError, Forbidden, NotFound
from kubewright.apiserver import HTTPRequest, User
from kubewright.apiserver.authentication.user import AUTHENTICATED, SYSTEM
from kubewright.controlplane import ControlPlane

Object = dict[str, Any]
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"
ALICE = User("alice", (AUTHENTICATED,))
UNSAFE = {
    "kind": "DeleteOptions",
    "apiVersion": "v1",
    "ignoreStoreReadErrorWithClusterBreakingPotential": True,
}
DAMAGES = [b"\xff not JSON", b"", b"[]", b"k8s:enc:aescbc:v1:lost:" + bytes(32)]


def config_map(name: str, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def pod(name: str, **spec: Any) -> Object:
    spec["containers"] = [{"name": "main", "image": "example.com/app"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@asynccontextmanager
async def started(path: Path, *, controllers: bool = False) -> AsyncIterator[tuple[ControlPlane, PathClient]]:
    store = f"sqlite:{path}/state.db"
    async with ControlPlane(store=store, port=None, controllers=controllers) as plane:
        yield plane, PathClient(plane.server, SYSTEM)


async def damage(plane: ControlPlane, key: str, value: bytes = DAMAGES[0]) -> None:
    """Write a value into the store that cannot be decoded."""
    item = await plane.storage.get(f"/registry/{key}")
    assert item is not None
    await plane.storage.update(item.key, value, expected=item.mod_revision)
    await plane.informers.catch_up()


async def ready(plane: ControlPlane) -> tuple[int, str]:
    """Return the status of `/readyz`, and the message of its check of stored objects."""
    whole = await plane.server.handle(HTTPRequest("GET", "/readyz", user=SYSTEM))
    check = await plane.server.handle(HTTPRequest("GET", "/readyz/undecodable-objects", user=SYSTEM))
    return whole.status, check.body.decode()


async def rejected(request: Awaitable[Any], key: str) -> None:
    """A request fails because of an object that cannot be decoded, and the response names it."""
    with pytest.raises(APIError) as caught:
        await request
    assert caught.value.status_code == 500
    assert f"/registry/{key}" in caught.value.message


POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "no-bad"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
            ]
        },
        "validations": [{"expression": "!object.metadata.name.startsWith('bad')", "message": "bad name"}],
    },
}
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "no-bad"},
    "spec": {"policyName": "no-bad", "validationActions": ["Deny"]},
}


async def create_shop(client: PathClient) -> None:
    await client.create(
        "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    )


@pytest.mark.parametrize("value", DAMAGES)
@pytest.mark.parametrize("kind", ["validatingadmissionpolicies", "validatingadmissionpolicybindings"])
async def test_a_policy_stays_in_force(tmp_path: Path, kind: str, value: bytes) -> None:
    key = f"{kind}/no-bad"
    async with started(tmp_path) as (plane, client):
        await create_shop(client)
        await client.create(f"{ADMISSION}/validatingadmissionpolicies", POLICY)
        await client.create(f"{ADMISSION}/validatingadmissionpolicybindings", BINDING)
        await rejected_by_policy(client)
        await damage(plane, key, value)
        await rejected_by_policy(client)
        await client.create(CONFIG_MAPS, config_map("good"))
        assert (await ready(plane)) == (200, "ok")
    async with started(tmp_path) as (plane, client):
        await rejected(client.create(CONFIG_MAPS, config_map("bad")), key)
        await rejected(client.create(CONFIG_MAPS, config_map("fine")), key)
        status, message = await ready(plane)
        assert status == 500
        assert f"/registry/{key}" in message
        await client.send("DELETE", f"{ADMISSION}/{kind}/no-bad", UNSAFE)
        await client.create(CONFIG_MAPS, config_map("fine"))
        assert (await ready(plane)) == (200, "ok")


async def rejected_by_policy(client: PathClient) -> None:
    with pytest.raises(APIError, match="bad name"):
        await client.create(CONFIG_MAPS, config_map("bad"))


@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
async def test_a_webhook_stays_in_force(tmp_path: Path, kind: str) -> None:
    plural = f"{kind.lower()}webhookconfigurations"
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "guard"},
        "webhooks": [
            {
                "name": "guard.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": POLICY["spec"]["matchConstraints"]["resourceRules"],  # type: ignore[index]
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
    async with started(tmp_path) as (plane, client):
        await create_shop(client)
        await client.create(f"{ADMISSION}/{plural}", configuration)
        for _ in range(2):
            with pytest.raises(APIError, match="failed calling webhook"):
                await client.create(CONFIG_MAPS, config_map("any"))
            await damage(plane, f"{plural}/guard", b"{}")
    async with started(tmp_path) as (plane, client):
        await rejected(client.create(CONFIG_MAPS, config_map("any")), f"{plural}/guard")
        assert f"/registry/{plural}/guard" in (await ready(plane))[1]
        await client.send("DELETE", f"{ADMISSION}/{plural}/guard", UNSAFE)
        await client.create(CONFIG_MAPS, config_map("any"))


@pytest.mark.parametrize("kind", ["clusterroles", "clusterrolebindings"])
async def test_a_role_grants_its_last_rules_or_none(tmp_path: Path, kind: str) -> None:
    async with started(tmp_path) as (plane, client):
        await create_shop(client)
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
        role |= {
            "metadata": {"name": "reader"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
        }
        await client.create(f"{RBAC}/clusterroles", role)
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        }
        await client.create(f"{RBAC}/clusterrolebindings", binding)
        alice = PathClient(plane.server, ALICE)
        await alice.get(CONFIG_MAPS)
        await damage(plane, f"{kind}/reader")
        await alice.get(CONFIG_MAPS)
        await alice.get(f"{CONFIG_MAPS}?labelSelector=a")
        with pytest.raises(Forbidden):
            await alice.get("/api/v1/secrets")
    async with started(tmp_path) as (plane, client):
        alice = PathClient(plane.server, ALICE)
        with pytest.raises(Forbidden):
            await alice.get(CONFIG_MAPS)
        await alice.get("/version")
        status, message = await ready(plane)
        assert status == 500
        assert f"/registry/{kind}/reader" in message


async def test_a_custom_resource_is_not_reported_as_missing(tmp_path: Path) -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    widgets = "/apis/example.com/v1/namespaces/shop/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    key = "apiextensions.k8s.io/customresourcedefinitions/widgets.example.com"
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with started(tmp_path, controllers=True) as (plane, client):
        await create_shop(client)
        await client.create(definitions, crd)
        await client.create(widgets, widget)
        await damage(plane, key)
        assert (await client.get(f"{widgets}/a"))["metadata"]["name"] == "a"
    async with started(tmp_path, controllers=True) as (plane, client):
        await rejected(client.get(f"{widgets}/a"), key)
        await rejected(client.get(widgets), key)
        with pytest.raises(NotFound):
            await client.get("/apis/other.example.com/v1/gadgets")
        assert f"/registry/{key}" in (await ready(plane))[1]
        # Its objects are still stored: the namespace is not deleted.
        await client.delete("/api/v1/namespaces/shop")
        await condition(client, "NamespaceDeletionDiscoveryFailure")
        assert await plane.storage.get("/registry/example.com/widgets/shop/a") is not None


async def condition(client: PathClient, type_: str) -> Object:
    """Wait until the namespace `shop` has a condition with status True."""
    async with asyncio.timeout(60):
        while True:
            namespace = await client.get("/api/v1/namespaces/shop")
            for each in (namespace.get("status") or {}).get("conditions") or ():
                if each["type"] == type_ and each["status"] == "True":
                    return dict(each)
            await asyncio.sleep(0.05)


async def test_a_namespace_is_not_deleted_while_it_has_such_an_object(tmp_path: Path) -> None:
    async with started(tmp_path, controllers=True) as (plane, client):
        await create_shop(client)
        await client.create(CONFIG_MAPS, config_map("damaged"))
        await client.create("/api/v1/namespaces/shop/secrets", {**config_map("a"), "kind": "Secret"})
        await damage(plane, "configmaps/shop/damaged")
        await client.delete("/api/v1/namespaces/shop")
        found = await condition(client, "NamespaceDeletionContentFailure")
        assert "/registry/configmaps/shop/damaged" in found["message"]
        assert await plane.storage.get("/registry/secrets/shop/a") is None, "others are deleted"
        await client.send("DELETE", f"{CONFIG_MAPS}/damaged", UNSAFE)
        async with asyncio.timeout(60):
            while await plane.storage.get("/registry/namespaces/shop") is not None:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("restart", [False, True])
async def test_dependents_of_such_an_owner_stay(tmp_path: Path, restart: bool) -> None:
    async with started(tmp_path, controllers=True) as (plane, client):
        await create_shop(client)
        owner = await client.create(CONFIG_MAPS, config_map("owner"))
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        for name in ("first", "second"):
            await client.create(CONFIG_MAPS, config_map(name, ownerReferences=[reference]))
        await plane.wait_until_idle()
        await damage(plane, "configmaps/shop/owner")
        if not restart:
            await stays_and_is_collected(plane, client)
    if restart:
        async with started(tmp_path, controllers=True) as (plane, client):
            await stays_and_is_collected(plane, client)


async def stays_and_is_collected(plane: ControlPlane, client: PathClient) -> None:
    """The dependents stay until the owner is deleted; a change makes the garbage collector look at one."""
    await client.merge(f"{CONFIG_MAPS}/first", {"data": {"a": "b"}})
    await plane.wait_until_idle()
    assert await plane.storage.get("/registry/configmaps/shop/first") is not None
    assert await plane.storage.get("/registry/configmaps/shop/second") is not None
    await client.send("DELETE", f"{CONFIG_MAPS}/owner", UNSAFE)
    async with asyncio.timeout(60):
        while await plane.storage.get("/registry/configmaps/shop/first") is not None:
            await asyncio.sleep(0.05)


LIMITS: dict[str, tuple[str, str, Object]] = {
    "limit range": (
        "limitranges/shop/limits",
        "/api/v1/namespaces/shop/limitranges",
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "limits"},
            "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "1"}}]},
        },
    ),
    "quota": (
        "resourcequotas/shop/quota",
        "/api/v1/namespaces/shop/resourcequotas",
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "quota"},
            "spec": {"hard": {"count/pods": "10"}},
        },
    ),
    "priority class": (
        "priorityclasses/high",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
            "globalDefault": True,
        },
    ),
    "service account": ("serviceaccounts/shop/default", "", {}),
    "namespace": ("namespaces/shop", "", {}),
}


@pytest.mark.parametrize("what", LIMITS)
async def test_pods_are_rejected_without_what_restricts_them(tmp_path: Path, what: str) -> None:
    key, path, obj = LIMITS[what]
    pods = "/api/v1/namespaces/shop/pods"
    async with started(tmp_path, controllers=True) as (plane, client):
        await create_shop(client)
        if path:
            await client.create(path, obj)
        await plane.wait_until_idle()
        await client.create(pods, pod("first"))
        await damage(plane, key)
        if what != "quota":  # charges are written to the stored object
            created = await client.create(pods, pod("second"))
            if what == "limit range":
                assert created["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}
            if what == "priority class":
                assert created["spec"]["priority"] == 1000
    async with started(tmp_path) as (plane, client):
        await rejected(client.create(pods, pod("third")), key)
        if what not in ("quota", "namespace"):
            await client.create(CONFIG_MAPS, config_map("unrelated"))
        status, message = await ready(plane)
        assert (status, f"/registry/{key}" in message) == (500, True)


async def test_usage_of_an_undecodable_object_still_counts(tmp_path: Path) -> None:
    async with started(tmp_path, controllers=True) as (plane, client):
        await create_shop(client)
        quota = LIMITS["quota"][2] | {"spec": {"hard": {"count/configmaps": "10"}}}
        await client.create("/api/v1/namespaces/shop/resourcequotas", quota)
        await client.create(CONFIG_MAPS, config_map("first"))
        await plane.wait_until_idle()
        path = "/api/v1/namespaces/shop/resourcequotas/quota"
        before = (await client.get(path))["status"]["used"]["count/configmaps"]
        await damage(plane, "configmaps/shop/first")
        await client.merge(path, {"metadata": {"labels": {"a": "b"}}})
        await plane.wait_until_idle()
        assert (await client.get(path))["status"]["used"]["count/configmaps"] == before


async def test_the_token_of_an_undecodable_account_is_rejected(tmp_path: Path) -> None:
    async with started(tmp_path, controllers=True) as (plane, client):
        await create_shop(client)
        await plane.wait_until_idle()
        review = await client.create(
            "/api/v1/namespaces/shop/serviceaccounts/default/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        )
        headers = {"Authorization": f"Bearer {review['status']['token']}"}
        statuses = []
        for _ in range(2):
            response = await plane.server.handle(HTTPRequest("GET", "/version", headers=headers))
            statuses.append((response.status, b"serviceaccounts" in response.body))
            await damage(plane, "serviceaccounts/shop/default")
        assert statuses == [(200, False), (401, False)]
