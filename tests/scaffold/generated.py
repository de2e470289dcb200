"""Import of generated types, and comparison of CustomResourceDefinitions."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from kubewright.api.declaring.declarations import is_resource
from kubewright.manifests import crd as build_crd
from kubewright.scaffold.types.from_crd import generate_types
from kubewright.scaffold.types.generated_code import normalized_root

CRDS = Path(__file__).parent / "crds"
_numbers = count()


def import_types(crd: Mapping[str, Any], directory: Path) -> list[ModuleType]:
    """Generate the types of a definition and import them."""
    modules = []
    for version, source in generate_types(crd).items():
        name = f"generated_{next(_numbers)}_{version}"
        path = directory / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        modules.append(module)
    return modules


def regenerate(crd: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return the definition that the generated types of a definition declare."""
    classes = [
        value
        for module in import_types(crd, directory)
        for value in vars(module).values()
        if is_resource(value) and value.__module__ == module.__name__
    ]
    return build_crd(*classes)


def normalized(crd: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition without what has no meaning: descriptions, order, implied values."""
    spec = dict(crd["spec"])
    conversion = spec.pop("conversion", None) or {}
    if conversion.get("strategy", "None") != "None":
        spec["conversion"] = conversion
    spec.pop("preserveUnknownFields", None)
    names = {"listKind": f"{spec['names']['kind']}List", "singular": spec["names"]["kind"].lower()}
    spec["names"] = {**names, **spec["names"]}
    spec["versions"] = sorted(
        (_version(version) for version in spec["versions"]), key=lambda each: each["name"]
    )
    metadata = dict(crd["metadata"])
    annotations = {
        name: value
        for name, value in metadata.get("annotations", {}).items()
        if name != "controller-gen.kubebuilder.io/version"
    }
    metadata.pop("annotations", None)
    return {"metadata": {**metadata, **({"annotations": annotations} if annotations else {})}, "spec": spec}


def _version(version: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(version)
    result["schema"] = normalized_root(version["schema"]["openAPIV3Schema"])
    result["subresources"] = {
        name: value for name, value in (version.get("subresources") or {}).items() if value is not None
    }
    result["additionalPrinterColumns"] = [
        {key: value for key, value in column.items() if value not in ("", 0)}
        for column in version.get("additionalPrinterColumns") or ()
    ]
    return result
