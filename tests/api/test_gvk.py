"""Group, version, kind and resource names."""

import pytest

from kubewright.api.gvk import (
    GroupKind,
    GroupResource,
    GroupVersion,
    GroupVersionKind,
    GroupVersionResource,
    version_priority,
)


def test_parse_and_format() -> None:
    assert GroupVersion.parse("apps/v1") == ("apps", "v1")
    assert GroupVersion.parse("v1") == ("", "v1")
    assert str(GroupVersion("apps", "v1")) == "apps/v1"
    assert str(GroupVersion("", "v1")) == "v1"
    assert GroupKind.parse("Deployment.apps") == GroupKind("apps", "Deployment")
    assert str(GroupKind("", "Pod")) == "Pod"
    assert GroupResource.parse("a.b.c") == GroupResource("b.c", "a")
    assert str(GroupResource("apps", "deployments")) == "deployments.apps"
    assert [GroupVersion.parse(text) for text in ("/v1", "apps/")] == [("", "v1"), ("apps", "")]
    for wrong in ("a/b/c", "//"):
        with pytest.raises(ValueError, match=f"unexpected GroupVersion string: {wrong}"):
            GroupVersion.parse(wrong)


def test_conversions() -> None:
    gvk = GroupVersionKind.from_api_version("apps/v1", "Deployment")
    assert gvk == GroupVersion("apps", "v1").kind("Deployment")
    assert gvk == GroupKind("apps", "Deployment").with_version("v1")
    assert (gvk.api_version, gvk.group_version, gvk.group_kind) == (
        "apps/v1",
        ("apps", "v1"),
        ("apps", "Deployment"),
    )
    assert gvk.list_kind().kind == "DeploymentList"
    assert str(gvk) == "apps/v1, Kind=Deployment"
    gvr = GroupVersion("", "v1").resource("pods")
    assert gvr == GroupResource("", "pods").with_version("v1") == GroupVersionResource("", "v1", "pods")
    assert gvr.path == "/api/v1"
    assert GroupVersionResource("apps", "v1", "deployments").path == "/apis/apps/v1"
    assert str(gvr) == "v1, Resource=pods"


def test_versions_sort_by_preference() -> None:
    stable = ["v10", "v2", "v1"]
    others = ["v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10", "v0", "v1beta"]
    preferred = stable + others
    assert sorted(preferred, key=version_priority) == preferred
