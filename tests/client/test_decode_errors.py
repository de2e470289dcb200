"""Objects on the server that do not match their class: the error names the object and the field."""

from __future__ import annotations

from typing import cast

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.meta import MetaObject
from kubewright.cache import Cache, KindOptions
from kubewright.client import Client, ObjectDecodeError, Reader, ReaderWriter


class WrongConfigMap(MetaObject):
    """A class whose `data` does not match the objects of the server."""

    gvk = ConfigMap.gvk
    data: list[int] | None = None


async def test_get_list_and_cached_reads_name_the_object(client: Client, namespace: str) -> None:
    await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace), data={"x": "1"}))
    message = (
        rf"ConfigMap {namespace}/a in v1 does not match class WrongConfigMap: \.data: Expected `array.*; "
        "fix the object, or read it as Unstructured"
    )
    with pytest.raises(ObjectDecodeError, match=message) as caught:
        await client.get(WrongConfigMap, "a", namespace=namespace)
    assert (caught.value.namespace, caught.value.name, caught.value.path) == (namespace, "a", ".data")
    with pytest.raises(ObjectDecodeError, match=message):
        await client.list(WrongConfigMap, namespace=namespace)
    async with Cache(client, kinds={ConfigMap: KindOptions(namespaces=(namespace,))}) as cache:
        with pytest.raises(ObjectDecodeError, match=message):
            await cache.list(WrongConfigMap, namespace=namespace)


async def test_get_or_none(client: Client, namespace: str) -> None:
    async def name_of(reader: Reader, name: str) -> str | None:
        found = await reader.get_or_none(ConfigMap, name, namespace=namespace)
        return found.metadata.name if found is not None else None

    await cast("ReaderWriter", client).create(ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace)))
    async with Cache(client, kinds={ConfigMap: KindOptions(namespaces=(namespace,))}) as cache:
        for reader in (client, cache):
            assert await name_of(reader, "a") == "a"
            assert await name_of(reader, "missing") is None


async def test_a_watch_takes_a_name_by_keyword_only(client: Client) -> None:
    with pytest.raises(TypeError, match="takes 2 positional arguments"):
        client.watch(ConfigMap, "default")  # type: ignore[call-overload]
