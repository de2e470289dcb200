"""Templates with CEL expressions: checks when they are declared, and the graphs that they build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright import CustomResource, ObjectMeta, Spec, Status, resource
from kubewright.api.unstructured import Unstructured
from kubewright.composition import CompositionTemplate, ExternalObject, GraphError, NotReady, TemplateError


class AppSpec(Spec):
    replicas: int = 1
    image: str = "nginx"
    zones: list[str] | None = None
    is_public: bool = False
    node_name: str | None = None


class AppStatus(Status):
    address: str | None = None
    ready_replicas: int | None = None


@resource(group="template.example.com", version="v1")
class App(CustomResource[AppSpec, AppStatus]):
    pass


TEMPLATE = """\
resources:
  - id: web
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata:
        name: ${schema.metadata.name}
      spec:
        replicas: ${schema.spec.replicas}
        selector: {matchLabels: {app: "${schema.metadata.name}"}}
        template:
          metadata: {labels: {app: "${schema.metadata.name}"}}
          spec:
            nodeName: ${schema.spec.?nodeName}
            containers:
              - name: web
                image: ${schema.spec.image}
                env:
                  - {name: SERVICE, value: "http://${service.spec.clusterIP}:${service.spec.ports[0].port}"}
  - id: service
    template:
      apiVersion: v1
      kind: Service
      metadata: {name: "${schema.metadata.name}"}
      spec: {ports: [{port: 80}]}
    readyWhen:
      - ${service.spec.clusterIP != ""}
  - id: zoned
    forEach:
      - zone: ${schema.spec.?zones.orValue([])}
      - color: '${["blue", "green"]}'
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-${zone}-${color}"}
      data: {zone: "${zone}"}
  - id: public
    includeWhen:
      - ${schema.spec.isPublic}
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${web.metadata.name}-public"}
  - id: afterPublic
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${public.metadata.name}-2"}
status:
  address: ${service.spec.clusterIP}
  readyReplicas: ${web.status.readyReplicas}
"""


def app(**spec: Any) -> App:
    return App(metadata=ObjectMeta(name="shop", namespace="default"), spec=AppSpec(**spec))


def template(text: str = TEMPLATE) -> CompositionTemplate:
    return CompositionTemplate(yaml.safe_load(text), source="app.yaml")


def changed(path: str, value: Any) -> CompositionTemplate:
    """Return the template with another value at a path such as `0.template.spec`."""
    document: Any = yaml.safe_load(TEMPLATE)
    *steps, last = path.split(".")
    found = document["resources"]
    for step in steps:
        found = found[int(step) if step.isdecimal() else step]
    found[last] = value
    return CompositionTemplate(document, source="app.yaml")


SERVICE = {"spec": {"clusterIP": "10.0.0.7", "ports": [{"port": 80}]}, "metadata": {"name": "shop"}}


def test_expressions_are_evaluated() -> None:
    graph = template().graph(app(replicas=3, zones=["east", "west"]))
    assert graph.order() == ["service", "web", "zoned"]
    web = graph.build("web", service=SERVICE)
    assert web["spec"]["replicas"] == 3
    pod = web["spec"]["template"]["spec"]
    assert pod["containers"][0]["env"][0]["value"] == "http://10.0.0.7:80"
    assert "nodeName" not in pod
    zoned = graph.build("zoned")
    assert [each["metadata"]["name"] for each in zoned] == [
        "shop-east-blue",
        "shop-east-green",
        "shop-west-blue",
        "shop-west-green",
    ]
    set_name = template().graph(app(node_name="node-1"))
    assert set_name.build("web", service=SERVICE)["spec"]["template"]["spec"]["nodeName"] == "node-1"


def test_excluded_resources_exclude_their_dependents() -> None:
    assert "afterPublic" not in template().graph(app()).nodes
    graph = template().graph(app(is_public=True))
    assert graph.order() == ["service", "web", "zoned", "public", "afterPublic"]


def test_missing_fields_of_dependencies_are_awaited() -> None:
    graph = template().graph(app())
    with pytest.raises(NotReady, match=r"resources\[0\] \(web\).*value: no such key: clusterIP"):
        graph.build("web", service={"spec": {"ports": []}})
    ready = graph.nodes["service"].ready
    assert ready is not None
    assert ready(SERVICE) is True
    assert ready({"spec": {"clusterIP": ""}}) == '${service.spec.clusterIP != ""} is not true yet'
    assert "no such key" in str(ready({"spec": {}}))


def test_missing_fields_of_the_object_are_errors() -> None:
    graph = changed("3.template.metadata.name", "${schema.spec.nodeName}").graph(app(is_public=True))
    with pytest.raises(GraphError, match=r"metadata\.name: no such key: nodeName"):
        graph.build("public")


def test_status_fields_are_set() -> None:
    owner = app()
    graph = template().graph(owner)
    for function, parameters in graph.status_functions:
        arguments = graph.status_arguments(parameters, {"service": SERVICE, "web": {"status": {}}})
        assert arguments is not None
        function(**arguments)
    assert (owner.status.address, owner.status.ready_replicas) == ("10.0.0.7", None)


def test_external_resources_are_read() -> None:
    document = yaml.safe_load(TEMPLATE)
    reference = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "${schema.metadata.name}-key"}}
    document["resources"].append({"id": "key", "externalRef": reference})
    document["resources"][3]["template"]["data"] = {"key": "${string(key.data.key)}"}
    found = CompositionTemplate(document)
    assert [each.kind for each in found.external_kinds] == ["Secret"]
    assert "Secret" not in [each.kind for each in found.kinds]
    graph = found.graph(app(is_public=True))
    assert graph.build("key") == ExternalObject(found.external_kinds[0], "shop-key")
    secret = Unstructured({"data": {"key": "YWJj"}})
    assert graph.build("public", web={"metadata": {"name": "w"}}, key=secret)["data"] == {"key": "abc"}


def test_documents_of_kro_are_accepted() -> None:
    document = yaml.safe_load(TEMPLATE)
    found = CompositionTemplate(
        {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": "app"},
            "spec": {
                "schema": {"apiVersion": "v1", "kind": "App", "status": document["status"]},
                "resources": document["resources"],
            },
        }
    )
    assert [each.kind for each in found.kinds] == ["Deployment", "Service", "ConfigMap"]
    graph = found.graph(app())
    assert (graph.order(), len(graph.status_functions)) == (["service", "web", "zoned"], 2)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("0.template.spec.replicas", "${schema.spec.replcas}", "undefined field 'replcas'"),
        ("0.template.spec.replicas", "${schema.spec.image}", "of type string, the field is of type integer"),
        ("0.template.spec.replicas", "a${schema.spec.image}", "of type string, the field is of type integer"),
        (
            "0.template.spec.replcas",
            3,
            "template.spec.replcas: no such field; the fields are: minReadySeconds",
        ),
        ("0.template.metadata.name", "${services.metadata.name}", "undeclared reference to 'services'"),
        ("0.template.metadata.name", "${web.metadata.name}", "the resource 'web' refers to itself"),
        ("0.template.metadata.name", "${schema.spec.", "has no closing brace"),
        ("0.template.metadata.name", "${1 +}", "Syntax error"),
        ("0.template.kind", "${schema.spec.image}", "expected a constant string"),
        ("0.template.metadata", {}, "metadata.name: required"),
        ("1.template.metadata.name", "${web.metadata.name}", "the graph has a cycle: web -> service -> web"),
        ("1.readyWhen", ["${service.spec.clusterIP}"], "is of type string, not bool"),
        ("1.readyWhen", ["service.spec"], "expected an expression such as"),
        ("1.id", "web", "two resources have the id 'web'"),
        ("1.id", "schema", "expected a name of letters and digits"),
        ("1.externalRef", {}, "a resource has either externalRef, or template and forEach"),
        ("1.wen", [], "no such field: wen"),
        ("2.forEach", [{"zone": "${schema.spec.replicas}"}], "expected a list, not int"),
        ("3.includeWhen", ["${web.spec.paused}"], "undeclared reference to 'web'"),
    ],
)
def test_errors_are_found_when_a_template_is_declared(path: str, value: Any, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        changed(path, value).check(App)
    assert message in str(caught.value)
    assert str(caught.value).startswith("app.yaml: ")
    assert "\n" not in str(caught.value)


def test_errors_of_files(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"cannot read .*missing\.yaml: No such file"):
        CompositionTemplate.load(tmp_path / "missing.yaml")
    (tmp_path / "a.yaml").write_text("resources: [")
    with pytest.raises(TemplateError, match=r"a\.yaml:\d: not valid YAML"):
        CompositionTemplate.load(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").write_text("resources: []\n")
    with pytest.raises(TemplateError, match=r"b\.yaml: resources: expected a list"):
        CompositionTemplate.load(tmp_path / "b.yaml")
    (tmp_path / "c.yaml").write_text(TEMPLATE)
    assert list(CompositionTemplate.load(tmp_path / "c.yaml").resources) == [
        "web",
        "service",
        "zoned",
        "public",
        "afterPublic",
    ]
