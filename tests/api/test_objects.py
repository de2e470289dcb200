"""Objects, decoding and encoding."""

from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.encoding.codec import (
    DecodeError,
    ObjectHeader,
    RawList,
    decode,
    encode,
    from_plain,
    loads,
    to_plain,
)
from kubewright.api.markers import MinLen, Required
from kubewright.api.meta import (
    APIStatus,
    Condition,
    LabelSelector,
    ListMeta,
    ManagedFieldsEntry,
    ObjectMeta,
    OwnerReference,
    PartialObjectMetadata,
)
from kubewright.api.objects import Object, Struct, base_of, set_base
from kubewright.api.presence import copy_value
from kubewright.api.unstructured import Unstructured


def test_api_version_and_kind_are_set() -> None:
    made = Deployment(metadata=ObjectMeta(name="web"), spec=DeploymentSpec(replicas=0))
    assert (made.api_version, made.kind) == ("apps/v1", "Deployment")
    assert loads(encode(made)) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 0},
    }
    with pytest.raises(TypeError):
        ObjectMeta("web")  # type: ignore[call-arg]


def test_absent_null_and_empty() -> None:
    assert encode(ObjectMeta()) == b"{}"
    assert encode(ObjectMeta(labels={}, finalizers=[])) == b'{"labels":{},"finalizers":[]}'
    assert decode(b'{"labels":null}', ObjectMeta) == decode(b"{}", ObjectMeta) != ObjectMeta(labels={})
    assert encode(LabelSelector(match_labels={})) == b'{"matchLabels":{}}'
    assert encode(OwnerReference(controller=False)) == b'{"controller":false}'


def test_json_names() -> None:
    assert encode(ListMeta(continue_="x")) == b'{"continue":"x"}'
    assert encode(ManagedFieldsEntry(fields_v1={"f:a": {}})) == b'{"fieldsV1":{"f:a":{}}}'
    assert decode(b'{"lastTransitionTime":null,"observedGeneration":3}', Condition).observed_generation == 3


def test_decoded_objects_keep_their_bytes() -> None:
    data = b'{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"newField":1}}'
    read = decode(data, Deployment)
    assert base_of(read) == data
    assert base_of(read.copy()) == data
    assert base_of(decode(memoryview(data), Deployment)) == data
    assert base_of(decode(msgspec.Raw(data), Deployment)) == data
    assert base_of(Deployment()) is None
    assert base_of(decode(data, Unstructured)) == data
    set_base(read, None)
    assert base_of(read) is None
    assert read == decode(data, Deployment)


def test_copies_are_deep() -> None:
    original = Deployment(metadata=ObjectMeta(labels={"a": "1"}, owner_references=[OwnerReference(name="o")]))
    copied = original.copy()
    assert copied == original
    assert copied.metadata.labels is not original.metadata.labels
    copied.metadata.labels = {}
    (copied.metadata.owner_references or [])[0].name = "p"
    assert (original.metadata.owner_references or [])[0].name == "o"
    assert copied != original
    nested = {"a": [{"b": (1, [2])}], "s": {3}}
    again = copy_value(nested)
    assert again == nested
    assert again["a"][0]["b"][1] is not nested["a"][0]["b"][1]  # type: ignore[index]


class Needy(Struct):
    size: int
    name: str = "x"


def test_repr_shows_fields_that_are_set() -> None:
    assert repr(ObjectMeta(name="web", labels={})) == "ObjectMeta(name='web', labels={})"
    assert repr(Deployment()) == "Deployment()"
    assert repr(Deployment(metadata=ObjectMeta(name="a"))) == "Deployment(metadata=ObjectMeta(name='a'))"
    assert repr(Needy(size=0)) == "Needy(size=0)"
    assert repr(Object(api_version="v1", kind="X")) == "Object(api_version='v1', kind='X')"
    assert next(iter(ObjectMeta(name="a").__rich_repr__())) == ("name", "a", None)


def test_lists_split_into_raw_items() -> None:
    data = b'{"apiVersion":"v1","kind":"L","metadata":{"resourceVersion":"5"},"items":[{"a":1}, {"b":[2]}]}'
    split = decode(data, RawList)
    assert split.metadata.resource_version == "5"
    assert [bytes(item) for item in split.items or []] == [b'{"a":1}', b'{"b":[2]}']
    header = decode(
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"x":[1,{"y":2}]}}', ObjectHeader
    )
    assert (header.kind, header.metadata.name) == ("Pod", "a")


def test_decode_errors_name_type_and_path() -> None:
    with pytest.raises(DecodeError, match=r"cannot decode Deployment: .*object.*\$\.spec"):
        decode(b'{"spec":[]}', Deployment)
    with pytest.raises(DecodeError, match="cannot decode Deployment"):
        decode(b"{", Deployment)
    with pytest.raises(DecodeError, match="not JSON"):
        loads(b"{")
    with pytest.raises(DecodeError, match="cannot decode ObjectMeta"):
        from_plain({"labels": 3}, ObjectMeta)
    with pytest.raises(DecodeError, match="expected an object, got list"):
        decode(b"[]", Unstructured)
    with pytest.raises(NotImplementedError, match="cannot be encoded"):
        encode(object())


def test_partial_metadata_and_status_objects() -> None:
    partial = decode(b'{"metadata":{"name":"a"},"spec":{}}', PartialObjectMetadata)
    assert partial.metadata.name == "a"
    assert PartialObjectMetadata().api_version == "meta.k8s.io/v1"
    status = decode(b'{"status":"Failure","details":{"causes":[{"field":"a"}]},"code":422}', APIStatus)
    assert status.details is not None
    assert (status.details.causes or [])[0].field == "a"


texts = st.text(max_size=5)
metas = st.builds(
    ObjectMeta,
    name=st.none() | texts,
    labels=st.none() | st.dictionaries(texts, texts, max_size=3),
    finalizers=st.none() | st.lists(texts, max_size=3),
    generation=st.none() | st.integers(0, 1 << 60),
    owner_references=st.none()
    | st.lists(st.builds(OwnerReference, name=texts, controller=st.none() | st.booleans())),
)


@given(metas)
def test_round_trip(meta: ObjectMeta) -> None:
    assert decode(encode(meta), ObjectMeta) == meta
    plain: Any = to_plain(meta)
    assert from_plain(plain, ObjectMeta) == meta
    assert loads(encode(meta)) == plain
    assert meta.copy() == meta


def test_name_and_namespace_are_never_none() -> None:
    from kubewright.api import ObjectMeta, Unstructured
    from kubewright.api.core.v1 import ConfigMap

    for made in (
        ConfigMap(metadata=ObjectMeta(name="a", namespace="b")),
        Unstructured({"metadata": {"name": "a", "namespace": "b"}}),
    ):
        assert (made.name, made.namespace) == ("a", "b")
    assert (ConfigMap().name, ConfigMap().namespace) == ("", "")
    assert (Unstructured().name, Unstructured({"metadata": None}).namespace) == ("", "")


class Measured(Struct):
    size: Annotated[int, Required] = 0
    unit: Annotated[str, MinLen(0), Required] = "m"
    note: str = ""


def test_required_fields_are_encoded_even_if_default() -> None:
    assert encode(Measured()) == b'{"size":0,"unit":"m"}'
    assert decode(b"{}", Measured) == Measured()
    assert Measured(size=3).copy() == Measured(size=3)
    assert repr(Measured(size=3)) == "Measured(size=3)"
