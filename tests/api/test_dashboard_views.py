"""Views of the dashboard that are declared with a kind."""

from __future__ import annotations

import json

import pytest

from kubewright import CustomResource, Spec, resource
from kubewright.api import BarsPanel, DashboardView, FactsPanel, TablePanel, ViewField
from kubewright.manifests import crd

COLUMN = ViewField("Orders", ".status.orders", "number")


class SeenSpec(Spec):
    size: int = 1


def test_a_view_is_an_annotation_of_the_definition() -> None:
    panels = (
        FactsPanel("Backup", (ViewField("Last", ".status.backup['last.time']", "time"),)),
        TablePanel("Customers", ".status.customers", (ViewField("Name", ".name"),)),
        BarsPanel("Load", ".status.servers", label=".name", value=".load", format="percent"),
    )

    @resource(
        group="views.example.com",
        version="v1",
        annotations={"a": "b"},
        dashboard=DashboardView(columns=(COLUMN,), panels=panels),
    )
    class Seen(CustomResource[SeenSpec, None]):
        """A kind with a view."""

    manifest = crd(Seen)
    annotations = manifest["metadata"]["annotations"]
    assert annotations["a"] == "b"
    view = json.loads(annotations["dashboard.kubewright.dev/view"])
    assert view["columns"] == [{"title": "Orders", "path": ".status.orders", "format": "number"}]
    assert [each["type"] for each in view["panels"]] == ["facts", "table", "bars"]
    assert view["panels"][2]["value"] == ".load"


@pytest.mark.parametrize("path", ["status.orders", ".status..orders", ".status[x]", "$.status", ".a['x", ""])
def test_a_wrong_path_is_an_error_at_the_declaration(path: str) -> None:
    with pytest.raises(ValueError, match="is not a path such as"):
        ViewField("Orders", path)
    with pytest.raises(ValueError, match="is not a path such as"):
        TablePanel("Orders", path, (COLUMN,))


def test_wrong_declarations_are_errors() -> None:
    with pytest.raises(ValueError, match="format 'html' is not one of text"):
        ViewField("Orders", ".status.orders", "html")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs columns or panels"):
        DashboardView()
    with pytest.raises(TypeError, match="columns is not a tuple"):
        DashboardView(columns=COLUMN)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at most 65536 are allowed"):
        DashboardView(columns=(ViewField("x" * 70_000, ".a"),)).annotations()
