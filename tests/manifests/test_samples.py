"""Sample objects of real CRDs are accepted by an API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kubewright.api import Unstructured
from kubewright.api.errors import Invalid
from kubewright.client import condition
from kubewright.manifests.deployment.samples import sample
from kubewright.testing.server import start_test_server

ROOT = Path(__file__).parents[2]
DIRECTORIES = (ROOT / "examples/types/golden", ROOT / "tests/scaffold/crds")


def definitions() -> Iterator[dict[str, Any]]:
    seen = set()
    for path in (path for directory in DIRECTORIES for path in sorted(directory.glob("*.yaml"))):
        for document in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            if document and document["kind"] == "CustomResourceDefinition":
                name = document["metadata"]["name"]
                if name not in seen:
                    seen.add(name)
                    document["spec"].pop("conversion", None)
                    yield document


async def test_samples_are_accepted() -> None:
    rejected = {}
    count = 0
    async with start_test_server("in-process", None, controllers=False) as server:
        client = server.client()
        for definition in definitions():
            created = await client.create(Unstructured(definition))
            await client.wait(created, until=condition("Established"))
            client.mapper.invalidate()
            for version in definition["spec"]["versions"]:
                if not version["served"]:
                    continue
                count += 1
                obj = Unstructured(sample(definition, version["name"]))
                try:
                    await client.create(obj, dry_run=True, field_validation="Strict")
                except Invalid as error:
                    rejected[definition["metadata"]["name"]] = str(error)
    assert count > 20
    assert not rejected
