"""Graphs of desired objects: order, references, and functions that are called with observed objects."""

from __future__ import annotations

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap, Service, ServiceSpec
from kubewright.composition import Graph, GraphError


def config(name: str = "a", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name), data=data)


def service(address: str = "10.0.0.1") -> Service:
    return Service(metadata=ObjectMeta(name="web"), spec=ServiceSpec(cluster_ip=address))


def test_nodes_follow_their_dependencies() -> None:
    graph = Graph()
    graph.add("last", config("last"), after=("settings",))

    @graph.node
    def settings(web: Service) -> ConfigMap:
        return config(address=web.spec.cluster_ip or "")

    graph.add("other", lambda settings, prefix="x": config(f"{prefix}-{settings.data['address']}"))
    graph.add("web", service())
    assert graph.order() == ["web", "settings", "last", "other"]
    assert graph.dependencies_of("settings") == ["web"]
    assert graph.dependencies_of("other") == ["settings"]
    assert graph.build("settings", web=service("10.9.9.9")).data == {"address": "10.9.9.9"}
    assert graph.build("other", settings=config(address="b")).metadata.name == "x-b"
    with pytest.raises(TypeError, match="node 'settings' depends on web"):
        graph.build("settings")


def test_parameters_have_underscores_for_dashes() -> None:
    graph = Graph()
    graph.add("web-service", service())
    graph.add("config", lambda web_service: config(web_service.metadata.name))
    assert graph.order() == ["web-service", "config"]
    assert graph.build_objects("config", {"web-service": service()}) == ([config("web")], False)


def test_lists_are_collections() -> None:
    graph = Graph()
    graph.add("zones", [config(zone) for zone in ("east", "west")])
    graph.add("single", lambda zones: [config("-".join(each.metadata.name for each in zones))])
    objects, is_list = graph.build_objects("zones", {})
    assert (len(objects), is_list) == (2, True)
    assert graph.build_objects("single", {"zones": objects}) == ([config("east-west")], True)


def test_unknown_names_are_rejected() -> None:
    graph = Graph()
    graph.add("database", config())
    graph.add("web", lambda databases: config())
    expected = "node 'web' depends on 'databases', which is not in the graph; did you mean 'database'?"
    with pytest.raises(GraphError, match=expected.replace("?", r"\?")):
        graph.order()
    other = Graph()
    other.add("web", config(), after=("missing",))
    with pytest.raises(
        GraphError, match="depends on 'missing', which is not in the graph; its nodes are: web"
    ):
        other.order()


def test_cycles_are_rejected() -> None:
    graph = Graph()
    graph.add("start", config())
    graph.add("a", lambda c: config())
    graph.add("b", lambda a, start: config())
    graph.add("c", lambda b: config())
    with pytest.raises(GraphError, match="the graph has a cycle: a -> c -> b -> a"):
        graph.order()
    own = Graph()
    own.add("a", config(), after=("a",))
    with pytest.raises(GraphError, match="a -> a"):
        own.order()


def test_parameters_of_another_type_are_rejected() -> None:
    graph = Graph()
    graph.add("web", service())

    @graph.node
    def settings(web: ConfigMap) -> ConfigMap:
        return web

    with pytest.raises(
        GraphError, match="node 'settings' takes web as ConfigMap, but that node is of the kind"
    ):
        graph.order()


def test_invalid_nodes_are_rejected() -> None:
    graph = Graph()
    graph.add("web", service())
    with pytest.raises(GraphError, match="two nodes with the name 'web'"):
        graph.add("web", service())
    with pytest.raises(GraphError, match="'a b' is not a name of a node"):
        graph.add("a b", service())
    with pytest.raises(TypeError, match='after=\\("web",\\)'):
        graph.add("config", config(), after="web")
    with pytest.raises(GraphError, match="parameter 'others' must be a named parameter"):
        graph.add("config", lambda *others: config())
    graph.add("text", lambda: "x")  # type: ignore[arg-type, return-value]
    with pytest.raises(GraphError, match="node 'text' is a str; expected an object"):
        graph.build_objects("text", {})


def test_status_functions_are_checked() -> None:
    graph = Graph()

    @graph.status
    def report(web: Service) -> None: ...

    with pytest.raises(GraphError, match="depends on 'web', which is not in the graph"):
        graph.order()
    graph.add("web", service())
    assert graph.order() == ["web"]
    assert graph.status_arguments(("web",), {}) is None
