"""The example server of the documentation, used with an HTTP client and with kubectl."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import sys
import types
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubewright.api import Unstructured
from kubewright.api.errors import Invalid
from kubewright.client import Client

KUBECTL = shutil.which("kubectl") or os.environ.get("KUBECTL", "")
PAGE = Path(__file__).parents[2] / "docs" / "apiserver.md"


@pytest.fixture
async def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Path]:
    """Run the server of the page; return the kubeconfig that it writes."""
    found = re.search(r"## Serve a kind with two versions.*?```python\n(.*?)```", PAGE.read_text(), re.S)
    assert found is not None
    text = found[1]
    assert len([line for line in text.splitlines() if line.strip()]) <= 40
    toy = types.ModuleType("toy")
    monkeypatch.setitem(sys.modules, "toy", toy)
    exec(compile(text, "docs/apiserver.md", "exec"), toy.__dict__)
    monkeypatch.chdir(tmp_path)
    running = asyncio.create_task(toy.main(port=0))
    path = tmp_path / "toy.kubeconfig"
    while not path.exists() and not running.done():
        await asyncio.sleep(0.01)
    assert not running.done(), running.result()
    yield path
    running.cancel()
    await asyncio.wait({running})


def pizza(version: str, name: str, toppings: list[object]) -> Unstructured:
    return Unstructured(
        {
            "apiVersion": f"toy.example.com/{version}",
            "kind": "Pizza",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"toppings": toppings},
        }
    )


async def test_with_a_client(kubeconfig: Path) -> None:
    async with Client.connect(kubeconfig, metrics=False) as client:
        await client.create(pizza("v1alpha1", "m", ["a", "b", "a"]))
        new = await client.get(pizza("v1", "m", []).gvk, "m", namespace="default")
        assert new["spec"]["toppings"] == [{"name": "a", "quantity": 2}, {"name": "b", "quantity": 1}]
        assert (await client.subresource("bill", new).get())["cost"] == 7
        with pytest.raises(Invalid):
            await client.create(pizza("v1alpha1", "n", [1]))


@pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed (or named by KUBECTL)")
async def test_with_kubectl(kubeconfig: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    manifest = tmp_path / "pizza.yaml"
    manifest.write_text(
        "apiVersion: toy.example.com/v1\nkind: Pizza\nmetadata: {name: m}\n"
        "spec: {toppings: [{name: basil, quantity: 1}, {name: ham, quantity: 2}]}\n"
    )

    async def kubectl(*arguments: str, fails: bool = False) -> str:
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            "--kubeconfig",
            str(kubeconfig),
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
    bill = await kubectl("get", "--raw", "/apis/toy.example.com/v1/namespaces/default/pizzas/m/bill")
    assert bill.strip() == '{"kind":"Bill","cost":7}'
    assert "quantity" in await kubectl("explain", "pizza.spec.toppings")
    assert "labeled" in await kubectl("label", "pizza", "m", "hot=yes")
    bad = await kubectl("patch", "pizza", "m", "--type=merge", "-p", '{"spec":{"toppings":[{}]}}', fails=True)
    assert "spec.toppings[0].name: Required value" in bad
    assert "deleted" in await kubectl("delete", "pizza", "m")
