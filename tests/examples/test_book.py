"""The operator of the book, after each chapter."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kubewright.api import Invalid, ObjectMeta
from kubewright.api.core.v1 import ConfigMap, Event
from kubewright.client import Client, condition
from kubewright.controller import Request
from kubewright.manager import Operator
from kubewright.manifests import crd
from kubewright.testing import run_operator
from kubewright.testing.server import start_test_server

ROOT = Path(__file__).parents[2]
BOOK = ROOT / "examples" / "book"
META = ObjectMeta(name="blog", namespace="default")


def load(chapter: int) -> ModuleType:
    """Import the module of a chapter under a name of its own."""
    name = f"book_chapter{chapter}"
    spec = importlib.util.spec_from_file_location(name, BOOK / f"chapter{chapter}" / "sites.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def site(module: ModuleType, html: str = "<h1>hello</h1>", **fields: Any) -> Any:
    return module.Site(metadata=META, spec=module.SiteSpec(html=html, **fields))


async def test_chapter_1_the_type_is_validated() -> None:
    module = load(1)
    async with start_test_server("in-process") as server:
        operator = Operator("none")
        operator.reconcile(module.Site)(_nothing)
        async with run_operator(operator, server.client()):
            with pytest.raises(Invalid, match="less than or equal to 5"):
                await server.client().create(site(module, replicas=9))
    assert crd(module.Site)["spec"]["names"]["plural"] == "sites"


async def _nothing(request: Request) -> None: ...


async def test_chapter_2_reconciles() -> None:
    module = load(2)
    async with start_test_server("in-process") as server, run_operator(module.operator, server.client()):
        await server.client().create(site(module))
        await _event(server.client(), "Reconciled")


async def _event(client: Client, reason: str) -> None:
    async for change in client.watch(Event, namespace="default"):
        if change.object.reason == reason:
            return


async def test_chapter_3_restores_children() -> None:
    module = load(3)
    async with start_test_server("in-process") as server, run_operator(module.operator, server.client()):
        client = server.client()
        await client.create(site(module))
        page = await client.wait(ConfigMap, "blog", namespace="default", until=lambda each: each is not None)
        assert page is not None
        await client.delete(page)
        await client.wait(
            ConfigMap,
            "blog",
            namespace="default",
            until=lambda each: each is not None and each.metadata.uid != page.metadata.uid,
            timeout=60,
        )


async def test_chapter_4_becomes_ready() -> None:
    module = load(4)
    async with (
        start_test_server("in-process", nodes=1) as server,
        run_operator(module.operator, server.client()),
    ):
        client = server.client()
        await client.create(site(module, replicas=2))
        ready = await client.wait(
            module.Site, "blog", namespace="default", until=condition("Ready"), timeout=60
        )
        assert ready.status.url == "http://blog.default.svc"


async def test_chapter_5_defaults_and_validates() -> None:
    module = load(5)
    async with start_test_server("in-process") as server, run_operator(module.operator, server.client()):
        client = server.client()
        created = await client.create(site(module, '<html lang="de"><h1>Hallo</h1></html>'))
        assert created.spec.language == "de"
        with pytest.raises(Invalid, match="must contain HTML elements"):
            await client.create(
                module.Site(
                    metadata=ObjectMeta(name="b", namespace="default"), spec=module.SiteSpec(html="b")
                )
            )


def test_chapters_6_and_7_pass_their_own_tests(tmp_path: Path) -> None:
    folder = shutil.copytree(BOOK / "chapter6", tmp_path / "sites")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "5 passed" in result.stdout


def test_chapter_8_explores_some_faults(tmp_path: Path) -> None:
    folder = shutil.copytree(BOOK / "chapter6", tmp_path / "sites")
    command = [sys.executable, "-m", "kubewright.cli", "explore", "sites:operator"]
    result = subprocess.run(
        [*command, "--scenario", "publish.yaml", "--budget-runs", "15"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 3, result.stdout + result.stderr
    assert "no violations in 15 runs" in result.stdout + result.stderr


def test_chapter_9_has_complete_manifests(tmp_path: Path) -> None:
    folder = shutil.copytree(BOOK / "chapter6", tmp_path / "sites")
    for arguments in (("manifests",), ("manifests", "--check"), ("check", "--strict"), ("helm",)):
        result = subprocess.run(
            [sys.executable, "-m", "kubewright.cli", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert "Warning" not in result.stderr
