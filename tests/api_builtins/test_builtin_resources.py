from __future__ import annotations

from importlib import import_module

import pytest

from kubewright.api.builtin import resources as builtin_resources
from kubewright.api.builtin.schemas import definition_name, module_of, wire_messages
from kubewright.api.gvk import GroupVersion, GroupVersionKind, GroupVersionResource

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def resource(plural: str, api_version: str = "v1") -> builtin_resources.BuiltinResource:
    row = builtin_resources.resource_at(GroupVersion.parse(api_version).resource(plural))
    assert row is not None
    return row


def test_rows() -> None:
    pods = resource("pods")
    assert pods.gvk == GroupVersionKind("", "v1", "Pod")
    assert pods.gvr == GroupVersionResource("", "v1", "pods")
    assert (pods.singular, pods.short_names, pods.categories) == ("pod", ("po",), ("all",))
    assert (pods.namespaced, pods.scope, pods.verbs) == (True, "Namespaced", ALL_VERBS)
    assert [part.name for part in pods.subresources] == [
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "log",
        "portforward",
        "proxy",
        "resize",
        "status",
    ]
    assert pods.subresource("log") == builtin_resources.Subresource("log", pods.gvk, ("get",))
    assert pods.subresource("missing") is None


def test_subresources_of_other_kinds() -> None:
    scale = resource("deployments", "apps/v1").subresource("scale")
    assert scale == builtin_resources.Subresource(
        "scale", GroupVersionKind("autoscaling", "v1", "Scale"), ("get", "patch", "update")
    )
    token = resource("serviceaccounts").subresource("token")
    assert token is not None
    assert token.gvk == GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")
    assert token.verbs == ("create",)
    attach = resource("pods").subresource("attach")
    assert attach is not None
    assert attach.gvk == GroupVersionKind("", "v1", "PodAttachOptions")


def test_exceptions_to_the_rule() -> None:
    assert "deletecollection" not in resource("namespaces").verbs
    assert resource("componentstatuses").verbs == ("get", "list")
    assert resource("tokenreviews", "authentication.k8s.io/v1").verbs == ("create",)
    assert resource("customresourcedefinitions", "apiextensions.k8s.io/v1").short_names == ("crd", "crds")
    assert resource("endpoints").singular == "endpoints"
    assert not resource("nodes").namespaced


def test_order_and_defaults() -> None:
    order = builtin_resources.group_versions()
    assert order[:3] == (
        GroupVersion("", "v1"),
        GroupVersion("apiregistration.k8s.io", "v1"),
        GroupVersion("apps", "v1"),
    )
    assert order.index(GroupVersion("autoscaling", "v2")) < order.index(GroupVersion("autoscaling", "v1"))
    assert len(order) == len(set(order)) == 36
    off = {str(row.gvk.group_version) for row in builtin_resources.resources() if not row.served_by_default}
    assert "resource.k8s.io/v1beta2" in off
    assert not any(name.endswith(("/v1", "/v2")) for name in off)


def test_lookups() -> None:
    assert builtin_resources.kinds_named("HorizontalPodAutoscaler")[0].version == "v2"
    assert [row.plural for row in builtin_resources.resources_in(GroupVersion("batch", "v1"))] == [
        "cronjobs",
        "jobs",
    ]
    assert builtin_resources.resource_of_kind(GroupVersionKind("apps", "v1", "Guestbook")) is None
    assert builtin_resources.resource_at(GroupVersionResource("apps", "v1", "pods")) is None


@pytest.mark.parametrize("row", builtin_resources.resources(), ids=lambda row: str(row.gvr))
def test_every_resource_has_class_schema_and_messages(row: builtin_resources.BuiltinResource) -> None:
    cls = getattr(import_module(module_of(row.gvk)), row.gvk.kind)
    assert cls.gvk == row.gvk
    assert cls().kind == row.gvk.kind
    schema, _ = builtin_resources.schema_for(row.gvk)
    assert schema["x-kubernetes-group-version-kind"][0]["kind"] == row.gvk.kind
    assert definition_name(row.gvk) in wire_messages()
    if "list" in row.verbs:
        assert getattr(import_module(module_of(row.gvk)), row.gvk.kind + "List").gvk == row.gvk.list_kind()
