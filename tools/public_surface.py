"""The public names of Kubewright and their parameters, recorded for the comparison with the next release.

    python tools/public_surface.py           # writes tests/public_surface.json
    python tools/public_surface.py --check   # fails if it differs, and lists the differences

Public is what a package declares in its `__init__.pyi` (docs/stability.md). Each name has its kind, functions
and classes their parameters. A difference from the file must be named in the section *Unreleased* of the
changelog, or in that of the current version.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SURFACE = ROOT / "tests" / "public_surface.json"
PACKAGES = (
    *("kubewright", "kubewright.api", "kubewright.client", "kubewright.cache", "kubewright.controller"),
    *("kubewright.webhook", "kubewright.manager", "kubewright.composition", "kubewright.testing"),
    *("kubewright.manifests", "kubewright.scaffold", "kubewright.extension", "kubewright.apiserver"),
    *("kubewright.storage", "kubewright.node", "kubewright.schema", "kubewright.patch", "kubewright.cel"),
)
"""Packages whose names are stable."""


def parameters(value: Any) -> str:
    """Return the parameters of a function or class; empty if it has none that can be read."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    shown = []
    for each in signature.parameters.values():
        prefix = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        suffix = "" if each.default is each.empty else "="
        mark = "keyword " if each.kind is each.KEYWORD_ONLY else ""
        shown.append(f"{mark}{prefix}{each.name}{suffix}")
    return ", ".join(shown)


def methods(value: type) -> dict[str, str]:
    """Return the public methods that a class of ours defines or inherits from one of ours."""
    found = {}
    for name, member in inspect.getmembers(value):
        if name.startswith("_") or not callable(member) or inspect.isclass(member):
            continue
        if str(getattr(member, "__module__", "")).startswith("kubewright"):
            found[name] = parameters(member)
    return found


def surface() -> dict[str, dict[str, Any]]:
    """Return the public names of all packages."""
    result: dict[str, dict[str, Any]] = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        names: dict[str, Any] = {}
        for name in sorted(each for each in dir(module) if not each.startswith("_")):
            value = getattr(module, name)
            if inspect.ismodule(value):
                continue
            if inspect.isclass(value):
                entry: Any = {"class": parameters(value)}
                if (found := methods(value)) and value.__module__.startswith("kubewright"):
                    entry["methods"] = found
            elif callable(value):
                entry = {"function": parameters(value)}
            else:
                entry = "value"
            names[name] = entry
        result[package] = names
    return result


def differences(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> list[str]:
    """Return the changed names, as `kubewright.client.Client.get`."""
    changed = []
    for package in sorted(old.keys() | new.keys()):
        before, after = old.get(package, {}), new.get(package, {})
        for name in sorted(before.keys() | after.keys()):
            one, other = before.get(name), after.get(name)
            if one == other:
                continue
            parts = [one.get("methods", {}) if isinstance(one, dict) else {}]
            parts.append(other.get("methods", {}) if isinstance(other, dict) else {})
            members = [
                each
                for each in sorted(parts[0].keys() | parts[1].keys())
                if parts[0].get(each) != parts[1].get(each)
            ]
            alone = one is None or other is None
            changed += (
                [f"{package}.{name}"]
                if alone or not members
                else [f"{package}.{name}.{each}" for each in members]
            )
    return changed


def main() -> int:
    """Write or check the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    found = surface()
    if not arguments.check:
        SURFACE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"wrote {SURFACE.relative_to(ROOT)}")
        return 0
    changed = differences(json.loads(SURFACE.read_text(encoding="utf-8")), found)
    for name in changed:
        print(name)
    if changed:
        print("Error: the public surface has changed; see docs/stability.md", file=sys.stderr)
    return bool(changed)


if __name__ == "__main__":
    raise SystemExit(main())
