"""The toy server of the documentation, with a real HTTP client and with kubectl."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import stat
from pathlib import Path

import aiohttp
import pytest

from kubewright.apiserver import serve

KUBECTL = shutil.which("kubectl") or os.environ.get("KUBECTL", "")
EXAMPLE = Path(__file__).parents[2] / "examples" / "toy_apiserver.py"


@pytest.fixture
async def front():
    spec = importlib.util.spec_from_file_location("toy_apiserver", EXAMPLE)
    toy = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["toy_apiserver"] = toy
    spec.loader.exec_module(toy)
    async with serve(toy.make_server()) as front:
        yield front
    del sys.modules["toy_apiserver"]


async def test_with_a_client(front, tmp_path):
    import ssl

    front.authority.issue("me", groups=("system:masters",)).write(tmp_path / "c", tmp_path / "k")
    context = ssl.create_default_context(cadata=front.authority_pem.decode())
    context.load_cert_chain(tmp_path / "c", tmp_path / "k")
    old, new = (
        f"/apis/toy.example.com/{version}/namespaces/default/pizzas" for version in ("v1alpha1", "v1")
    )
    body = {
        "apiVersion": "toy.example.com/v1alpha1",
        "kind": "Pizza",
        "metadata": {"name": "m"},
        "spec": {"toppings": ["a", "b", "a"]},
    }
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(front.url, connector=connector) as session:
        async with session.post(old, json=body) as response:
            assert response.status == 201
        async with session.get(f"{new}/m") as response:
            toppings = (await response.json())["spec"]["toppings"]
            assert toppings == [{"name": "a", "quantity": 2}, {"name": "b", "quantity": 1}]
        async with session.get(f"{new}/m/bill") as response:
            assert (await response.json())["cost"] == 7
        body["spec"]["toppings"] = [1]
        body["metadata"]["name"] = "n"
        async with session.post(old, json=body) as response:
            assert response.status == 422


@pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed (or named by KUBECTL)")
async def test_with_kubectl(front, tmp_path):
    config = tmp_path / "kubeconfig"
    front.write_kubeconfig(config)
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    manifest = tmp_path / "pizza.yaml"
    manifest.write_text(
        "apiVersion: toy.example.com/v1\nkind: Pizza\nmetadata: {name: m}\n"
        "spec: {toppings: [{name: basil, quantity: 1}, {name: ham, quantity: 2}]}\n"
    )

    async def kubectl(*arguments: str, fails: bool = False) -> str:
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            "--kubeconfig",
            str(config),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        )
        output, _ = await process.communicate()
        assert bool(process.returncode) is fails, output.decode()
        return output.decode()

    assert "pizzas" in await kubectl("api-resources")
    assert "created" in await kubectl("apply", "-f", str(manifest))
    assert "unchanged" in await kubectl("apply", "-f", str(manifest))
    assert "basil" in await kubectl("get", "pizzas")
    assert "serverside-applied" in await kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", str(manifest)
    )
    old = await kubectl("get", "pizzas.v1alpha1.toy.example.com", "m", "-o", "jsonpath={.spec.toppings}")
    assert old == '["basil","ham","ham"]'
    assert "quantity" in await kubectl("explain", "pizza.spec.toppings")
    assert "labeled" in await kubectl("label", "pizza", "m", "hot=yes")
    bad = await kubectl("patch", "pizza", "m", "--type=merge", "-p", '{"spec":{"toppings":[{}]}}', fails=True)
    assert "spec.toppings[0].name: Required value" in bad
    assert "deleted" in await kubectl("delete", "pizza", "m")
