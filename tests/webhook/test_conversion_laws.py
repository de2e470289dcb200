"""Laws of conversion by rules, for generated versions of a kind and generated objects.

- A -> B -> A is the identity for every field of A, in both directions and through a third version.
- What is written in B is what is read in B, whatever A has that B cannot represent.
- Fields that B cannot represent survive writes in B, also in elements of lists and maps.
- A converted object has the defaults of its version and no fields that its version does not have.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import types
from dataclasses import dataclass
from typing import Annotated, Any

from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from kubewright.api import CustomResource, ObjectMeta, Spec, Unstructured, WebhookConversion, resource
from kubewright.api.apiextensions.v1 import CustomResourceDefinition
from kubewright.api.core.v1 import Namespace
from kubewright.api.declaring.declarations import resource_info
from kubewright.api.encoding import codec
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.markers import AsIntOrString, ListMap, PreserveUnknownFields, Schemaless
from kubewright.client import Client, ClusterConfig
from kubewright.manager.operators.installation import install_definitions
from kubewright.schema.defaulting import apply_defaults
from kubewright.schema.pruning import prune
from kubewright.testing import start_test_server
from kubewright.webhook import Converter, Move, SelfSignedCertificates, WebhookServer
from kubewright.webhook.conversion import schema_node
from kubewright.webhook.preserved_fields import MISSING, merge

Document = dict[str, Any]
_numbers = itertools.count()


class ItemA(Spec):
    name: str
    weight: int = 1
    note: str | None = None


class ItemB(Spec):
    name: str
    weight: int = 2
    color: str | None = None


class DeepA(Spec):
    items: list[ItemA] | None = None
    level: int = 3
    inner: ItemA | None = None


class DeepB(Spec):
    items: list[ItemB] | None = None
    depth: str = "deep"
    inner: ItemB | None = None


names = st.sampled_from(["a", "b", "c"])
texts = st.text("xyz", max_size=3)
numbers = st.integers(0, 4)


def mapping(**optional: Any) -> Any:
    return st.fixed_dictionaries({}, optional=optional)


def items(extra: str, *, unique: bool = False) -> Any:
    item = st.fixed_dictionaries({"name": names}, optional={"weight": numbers, extra: texts})
    return st.lists(item, max_size=3, unique_by=(lambda each: each["name"]) if unique else None)


def deep(extra: str, own: str, values: Any) -> Any:
    inner = st.fixed_dictionaries({"name": names}, optional={"weight": numbers, extra: texts})
    return mapping(**{"items": items(extra), own: values, "inner": inner})


@dataclass(frozen=True)
class Field:
    """A field in both versions: annotation, default and values of each."""

    a: Any
    b: Any
    values_a: Any
    values_b: Any
    default_a: Any = None
    default_b: Any = None


def same(annotation: Any, values: Any, default: Any = None, other: Any = None) -> Field:
    return Field(annotation, annotation, values, values, default, other if other is not None else default)


KEYED = ListMap("name")
FIELDS = {
    "number": same(int, numbers, 1, 2),
    "text": same(str, texts, "x", "y"),
    "flag": same(bool, st.booleans(), True, False),
    "optional": same(int | None, numbers),
    "amount": same(Annotated[int | str, AsIntOrString] | None, numbers | st.just("50%")),
    "labels": same(dict[str, str] | None, st.dictionaries(names, texts, max_size=2)),
    "words": same(list[str] | None, st.lists(texts, max_size=3)),
    "free": same(
        Annotated[dict[str, Any], Schemaless, PreserveUnknownFields] | None,
        st.dictionaries(names, st.none() | numbers | st.lists(texts), max_size=2),
    ),
    "list": Field(list[ItemA] | None, list[ItemB] | None, items("note"), items("color")),
    "keyed": Field(
        Annotated[list[ItemA], KEYED] | None,
        Annotated[list[ItemB], KEYED] | None,
        items("note", unique=True),
        items("color", unique=True),
    ),
    "map": Field(
        dict[str, ItemA] | None,
        dict[str, ItemB] | None,
        st.dictionaries(names, mapping(note=texts).map(lambda each: {"name": "m", **each}), max_size=2),
        st.dictionaries(names, mapping(color=texts).map(lambda each: {"name": "m", **each}), max_size=2),
    ),
    "deep": Field(DeepA | None, DeepB | None, deep("note", "level", numbers), deep("color", "depth", texts)),
}


@dataclass
class Versions:
    """Three versions of a kind: v1 and v3 are spokes of v2."""

    converter: Converter
    values: dict[str, Any]
    """Strategies for the specs of v1 and v2."""
    hub_only: list[str]


def version(name: str, fields: dict[str, tuple[Any, Any]], number: int) -> Any:
    spec = type(
        "Spec",
        (Spec,),
        {"__annotations__": {key: each[0] for key, each in fields.items()}, "__module__": __name__}
        | {key: each[1] for key, each in fields.items()},
    )
    body = {"__module__": __name__, "__doc__": "A thing."}
    kind = types.new_class(
        "Thing", (CustomResource[spec, None],), {}, lambda namespace: namespace.update(body)
    )
    is_hub = name == "v2"
    conversion = WebhookConversion() if is_hub else None
    return resource(
        group=f"laws{number}.example.com", version=name, storage=is_hub, hub=is_hub, conversion=conversion
    )(kind)


@st.composite
def versions(draw: Any) -> Versions:
    number = next(_numbers)
    hub: dict[str, tuple[Any, Any]] = {}
    spoke: dict[str, tuple[Any, Any]] = {}
    values: dict[str, dict[str, Any]] = {"v1": {}, "v2": {}}
    rules, hub_only = [], []
    for name in draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=5, unique=True)):
        field = FIELDS[name]
        place = draw(st.sampled_from(["both", "both", "hub", "spoke", "moved"]))
        if place != "spoke":
            hub[name] = field.a, field.default_a
            values["v2"][name] = field.values_a
        if place in ("both", "spoke"):
            spoke[name] = field.b, field.default_b
            values["v1"][name] = field.values_b
        if place == "hub":
            hub_only.append(name)
        if place == "moved":
            target = f"old{name.capitalize()}"
            spoke[f"old_{name}"] = field.b, field.default_b
            values["v1"][target] = field.values_b
            rules.append(Move(f"spec.{target}", f"spec.{name}"))
    converter = Converter(version("v2", hub, number))
    converter.spoke(version("v1", spoke, number), rules=rules)
    converter.spoke(version("v3", {"number": (int, 7)}, number), rules=())
    strategies = {name: mapping(**each) for name, each in values.items()}
    return Versions(converter, strategies, hub_only)


def draw_object(data: st.DataObject, of: Versions, name: str) -> Document:
    kind = next(each for each in of.converter.types if each.gvk and each.gvk.version == name)
    assert kind.gvk is not None
    document = {
        "apiVersion": kind.gvk.api_version,
        "kind": "Thing",
        "metadata": {"name": "a", "annotations": {"own": "1"}},
        "spec": data.draw(of.values[name]),
    }
    apply_defaults(document, schema_node(kind))
    return document


def convert(of: Versions, document: Document, name: str) -> Document:
    converted = of.converter.convert(codec.encode(document), name)
    kind = next(each for each in of.converter.types if each.gvk and each.gvk.version == name)
    complete = copy.deepcopy(converted)
    apply_defaults(complete, schema_node(kind))
    assert complete == converted, "conversion output is complete"
    assert prune(complete, schema_node(kind), root=True) == [], "it has only fields of the version"
    return converted


@settings(max_examples=80)
@given(versions(), st.data())
def test_a_round_trip_is_the_identity(of: Versions, data: st.DataObject) -> None:
    for name, others in (("v2", ("v1", "v3")), ("v1", ("v2", "v3"))):
        original = draw_object(data, of, name)
        for other in others:
            assert convert(of, convert(of, original, other), name) == original


@settings(max_examples=80)
@given(versions(), st.data())
def test_what_is_written_in_a_version_is_read_in_it(of: Versions, data: st.DataObject) -> None:
    for name, other in (("v1", "v2"), ("v2", "v1")):
        stored = draw_object(data, of, other)
        written = convert(of, stored, name)
        written["spec"] = draw_object(data, of, name)["spec"]
        changed = convert(of, copy.deepcopy(written), other)
        read = convert(of, changed, name)
        assert read["spec"] == written["spec"]
        if name == "v1":
            for field in of.hub_only:
                assert changed["spec"].get(field) == stored["spec"].get(field)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@given(VALUES, VALUES, VALUES)
@example(converted=[{"a": 1}], value=[{"a": 1, "b": 2}, {"a": 3}], current=[{"a": 2}])
def test_merge(converted: Any, value: Any, current: Any) -> None:
    assert merge(converted, value, converted, None) == value
    assert merge(converted, converted, current, None) == current
    assert merge(MISSING, value, MISSING, None) == value
    assert merge(converted, value, MISSING, None) is (MISSING)
    merge(converted, value, current, None)


@given(st.lists(st.integers(0, 9), unique=True, max_size=6), st.data())
def test_hidden_fields_follow_their_elements(numbers: list[int], data: st.DataObject) -> None:
    """Elements keep what the version of the writer does not show when others are added, removed or moved."""
    converted = [{"n": each} for each in numbers]
    value = [{"n": each, "hidden": str(each)} for each in numbers]
    removed = data.draw(st.sets(st.sampled_from(numbers)) if numbers else st.just(set()))
    kept = [each for each in numbers if each not in removed]
    added = data.draw(st.lists(st.integers(10, 12), unique=True, max_size=2))
    current = [{"n": each} for each in data.draw(st.permutations([*kept, *added]))]
    merged = merge(converted, value, current, None)
    assert [each["n"] for each in merged] == [each["n"] for each in current]
    for each in merged:
        if each["n"] in kept:
            assert each["hidden"] == str(each["n"])


async def test_an_api_server_serves_every_version_of_what_was_written_in_any(
    real_config: ClusterConfig | None,
) -> None:
    """Served B equals stored A converted, whichever version a write came through; updates change nothing."""
    cases: list[tuple[Versions, dict[str, Document]]] = []

    @settings(max_examples=12, database=None, phases=(Phase.generate,))
    @given(versions(), st.data())
    def collect(of: Versions, data: st.DataObject) -> None:
        cases.append((of, {name: draw_object(data, of, name) for name in ("v1", "v2")}))

    collect()
    certificates = SelfSignedCertificates()
    webhooks = WebhookServer(certificates, host="127.0.0.1", port=0)
    for of, _ in cases:
        webhooks.conversions.add(of.converter)
    stop = asyncio.Event()
    serving = asyncio.create_task(webhooks.run(stop))
    await asyncio.wait_for(webhooks.wait_until_started(), 60)
    try:
        options: Any = {"controllers": False} if real_config is None else {}
        place = "in-process" if real_config is None else "real"
        async with start_test_server(place, real_config, **options) as server:
            client = server.client()
            if real_config is not None:
                await client.with_field_manager("test").apply(Namespace(metadata=ObjectMeta(name="default")))
            url = f"https://127.0.0.1:{webhooks.port}"
            for of, objects in cases:
                await install_definitions(
                    client, of.converter.types, conversion_url=url, ca_bundle=certificates.ca_bundle
                )
                kinds = {gvk.version: gvk for kind in of.converter.types if (gvk := kind.gvk) is not None}
                for name, document in objects.items():
                    obj = Unstructured(copy.deepcopy(document))
                    obj.metadata.name, obj.metadata.namespace = f"from-{name}", "default"
                    await client.create(obj)
                    written = await read(client, kinds[name], f"from-{name}")
                    assert written["spec"] == document["spec"]
                    for other, kind in kinds.items():
                        served = await read(client, kind, f"from-{name}")
                        if other != name:
                            assert served == convert(of, written, other)
                        await client.update(Unstructured(copy.deepcopy(served)))
                        assert unversioned(await read(client, kind, f"from-{name}")) == unversioned(served)
                        assert (await read(client, kinds[name], f"from-{name}"))["spec"] == document["spec"]
                if real_config is not None:
                    plural = resource_info(of.converter.hub).plural
                    await client.delete(CustomResourceDefinition, f"{plural}.{of.converter.kind.group}")
    finally:
        stop.set()
        await serving


async def read(client: Client, kind: GroupVersionKind, name: str) -> Document:
    document: Document = codec.loads(codec.encode(await client.get(kind, name, namespace="default")))
    del document["metadata"]["managedFields"]
    return document


def unversioned(document: Document) -> Document:
    metadata = {key: each for key, each in document["metadata"].items() if key != "resourceVersion"}
    return {**document, "metadata": metadata}
