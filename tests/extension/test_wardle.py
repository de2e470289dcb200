"""The sample API server of Kubernetes: versions, rules, admission, protobuf and CBOR."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubewright import Client, ObjectMeta
from kubewright.api.encoding import cbor, codec
from kubewright.api.errors import Forbidden, Invalid
from kubewright.apiserver.encoding.protobuf import builtin_codec
from kubewright.testing import TestServer, run_app
from wardle import (
    GROUP,
    Fischer,
    Flunder,
    FlunderSpec,
    FlunderSpecV1Alpha1,
    FlunderV1Alpha1,
    app,
)

from .kubectl import Kubectl, requires_kubectl

EXAMPLE = Path(__file__).parents[2] / "examples" / "wardle"
PATH = f"/apis/{GROUP}/v1beta1/namespaces/default/flunders"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@asynccontextmanager
async def start_wardle(server: TestServer) -> AsyncIterator[Client]:
    client = server.client()
    async with run_app(app, client):
        await client.list(Flunder)  # kube-apiserver responds 503 until it has seen the APIServices
        yield client


def flunder(name: str, **spec: str) -> Flunder:
    return Flunder(metadata=ObjectMeta(name=name, namespace="default"), spec=FlunderSpec(**spec))


async def test_versions_rules_and_admission(cluster: TestServer) -> None:
    async with start_wardle(cluster) as client:
        old = FlunderV1Alpha1(
            metadata=ObjectMeta(name="old", namespace="default"), spec=FlunderSpecV1Alpha1(reference="a")
        )
        assert (await client.create(old)).spec.reference_type == "Flunder"
        new = await client.get(Flunder, "old", namespace="default")
        assert (new.spec.flunder_reference, new.spec.reference_type) == ("a", "Flunder")
        for spec, field, text in (
            ({"flunder_reference": "a", "fischer_reference": "b"}, "fischerReference", "at the same time"),
            ({"flunder_reference": "a"}, "flunderReference", "cannot be set if referenceType is not Flunder"),
            (
                {"reference_type": "Fischer"},
                "fischerReference",
                "cannot be empty if referenceType is Fischer",
            ),
            ({"reference_type": "Salmon"}, "referenceType", "must be Flunder or Fischer"),
        ):
            with pytest.raises(Invalid, match=rf"spec\.{field}: Invalid value: .*{text}"):
                await client.create(flunder("wrong", **spec))
        await client.create(Fischer(metadata=ObjectMeta(name="strict"), disallowed_flunders=["bad"]))
        with pytest.raises(
            Forbidden, match=rf'flunders\.{GROUP} "bad" is forbidden: this name may not be used'
        ):
            await client.create(flunder("bad"))


async def test_protobuf(cluster: TestServer) -> None:
    async with start_wardle(cluster) as client:
        send = client.rest.transport.send
        # Flunder { 1: ObjectMeta { 1: "a", 3: "default" }, 2: FlunderSpec { 1: "b", 3: "Flunder" } }, by hand
        message = b"\x0a\x0c\x0a\x01a\x1a\x07default" + b"\x12\x0c\x0a\x01b\x1a\x07Flunder"
        type_meta = b"\x0a\x1awardle.example.com/v1beta1" + b"\x12\x07Flunder"
        body = b"k8s\0\x0a" + bytes([len(type_meta)]) + type_meta + b"\x12" + bytes([len(message)]) + message
        headers = {"Content-Type": PROTOBUF, "Accept": PROTOBUF}
        response = await send("POST", PATH, "", headers, body)
        assert (response.status, response.headers["Content-Type"]) == (201, PROTOBUF), response.body
        assert b"\x12\x0e\x0a\x01b\x12\x00\x1a\x07Flunder" in response.body
        created = builtin_codec().decode(response.body)
        assert created["spec"] == {
            "flunderReference": "b",
            "fischerReference": "",
            "referenceType": "Flunder",
        }
        stored = await client.get(Flunder, "a", namespace="default")
        assert (stored.spec.flunder_reference, stored.metadata.uid) == ("b", created["metadata"]["uid"])
        response = await send("GET", PATH, "limit=10", headers)
        listed = builtin_codec().decode(response.body)
        assert (listed["kind"], listed["items"][0]["metadata"]["name"]) == ("FlunderList", "a")
        response = await send("GET", f"{PATH.replace('v1beta1', 'v1alpha1')}/a", "", headers)
        old = builtin_codec().decode(response.body)
        assert old["spec"] == {"reference": "b", "referenceType": "Flunder"}
        stream = await client.rest.transport.stream(
            "GET", PATH, "watch=true", {"Accept": f"{PROTOBUF};stream=watch"}
        )
        data = b""
        async for chunk in stream:
            data += chunk
            if len(data) > 4 and len(data) >= 4 + struct.unpack(">I", data[:4])[0]:
                break
        await stream.aclose()
        assert b"ADDED" in data
        assert b"\x12\x0e\x0a\x01b\x12\x00\x1a\x07Flunder" in data
        options = builtin_codec().encode(
            {"apiVersion": f"{GROUP}/v1beta1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        )
        response = await send("DELETE", f"{PATH}/a", "", headers, options)
        assert response.status == 200
        assert (await send("GET", f"{PATH}/a", "", headers)).status == 404


async def test_cbor(cluster: TestServer) -> None:
    async with start_wardle(cluster) as client:
        send = client.rest.transport.send
        headers = {"Content-Type": "application/cbor", "Accept": "application/cbor, application/json;q=0.5"}
        response = await send("POST", PATH, "", headers, cbor.encode(codec.loads(codec.encode(flunder("a")))))
        assert (response.status, response.headers["Content-Type"]) == (201, "application/cbor")
        assert response.body.startswith(cbor.SELF_DESCRIBED)
        assert cbor.decode(response.body)["metadata"]["name"] == "a"
        table = "application/cbor;as=Table;v=v1;g=meta.k8s.io"
        shown = cbor.decode((await send("GET", PATH, "", {"Accept": table})).body)
        assert (shown["kind"], shown["rows"][0]["cells"][0]) == ("Table", "a")
        missing = cbor.decode((await send("GET", f"{PATH}/b", "", headers)).body)
        assert (missing["kind"], missing["reason"]) == ("Status", "NotFound")
        wrong = await send("POST", PATH, "", headers, b"\xff")
        assert wrong.status == 400
        accept = {"Accept": "application/cbor-seq"}
        stream = await client.rest.transport.stream("GET", PATH, "watch=true", accept)
        assert stream.headers["Content-Type"] == "application/cbor-seq"
        decoder = cbor.SequenceDecoder(1 << 20)
        async for chunk in stream:
            if events := decoder.feed(chunk):
                break
        await stream.aclose()
        assert (events[0]["type"], events[0]["object"]["metadata"]["name"]) == ("ADDED", "a")


@requires_kubectl
async def test_kubectl(cluster: TestServer, tmp_path: Path) -> None:
    kubectl = Kubectl(cluster, tmp_path)
    async with start_wardle(cluster):
        applied = await kubectl("apply", "--server-side", "-f", str(EXAMPLE / "sample.yaml"))
        assert applied.count("serverside-applied") == 3
        assert "Flunder.Names that are disallowed" in await kubectl("explain", "fischer")
        assert "mutually exclusive" in await kubectl("explain", "flunder.spec")
        assert (await kubectl("get", "flunders", "-o", "name")).splitlines() == [
            f"flunder.{GROUP}/my-first-flunder",
            f"flunder.{GROUP}/second",
        ]
