"""Handlers of a kopf module, read from its source without importing it.

Each handler is listed with the decorator that it becomes, as in docs/coming-from-kopf.md.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_DECORATORS: Final = {
    "on.create": "@operator.on.create({kind})",
    "on.update": "@operator.on.update({kind})",
    "on.resume": "@operator.on.resume({kind})",
    "on.delete": "@operator.finalize({kind})",
    "on.field": '@operator.on.field({kind}, "{field}")',
    "on.event": "@operator.reconcile({kind})",
    "on.validate": "@operator.validate({kind})",
    "on.mutate": "@operator.default({kind})",
    "on.startup": "@operator.on_startup",
    "on.cleanup": "@operator.on_cleanup",
    "timer": "@operator.timer({kind}, interval={interval})",
    "daemon": "@operator.daemon({kind})",
    "index": '@operator.index({kind}, "{name}")',
}
_NOTES: Final = {
    "on.event": "called for the current state of the object, not for each event",
    "on.probe": "becomes operator.probes.add_health_check(name, function)",
    "on.login": "not needed: the client reads the kubeconfig or the ServiceAccount",
    "on.subhandler": "becomes a plain function call in the handler",
}


@dataclass(frozen=True)
class KopfResource:
    """Resource of a handler, as far as the decorator names it."""

    group: str
    version: str
    plural: str

    def __str__(self) -> str:
        return f"{self.plural}.{self.version}.{self.group}" if self.group else f"{self.plural}.{self.version}"


@dataclass(frozen=True)
class KopfHandler:
    """One decorator of a handler."""

    function: str
    line: int
    event: str
    """Decorator without `kopf`, such as `on.create` or `timer`."""
    resource: KopfResource | None
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def decorator(self, kind: str) -> str | None:
        """Return the equivalent decorator of Kubewright, or `None`."""
        pattern = _DECORATORS.get(self.event)
        if pattern is None:
            return None
        interval = self.options.get("interval", 60)
        return pattern.format(
            kind=kind, name=self.function, field=self.options.get("field", "spec"), interval=interval
        )

    @property
    def note(self) -> str:
        """What differs, or how it is ported if there is no decorator."""
        return _NOTES.get(self.event, "")


@dataclass(frozen=True)
class KopfModule:
    """Handlers of a module, and the fields of `spec` that they read with their defaults."""

    handlers: list[KopfHandler]
    spec_fields: dict[str, Any]

    @property
    def resources(self) -> list[KopfResource]:
        """The resources of all handlers, in order."""
        return list(dict.fromkeys(each.resource for each in self.handlers if each.resource is not None))


def read_kopf_module(source: str) -> KopfModule:
    """Return the handlers in the source of a module; raise `SyntaxError` if it is not Python."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    aliases = _aliases(tree)
    handlers = [
        handler
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for decorator in node.decorator_list
        if (handler := _handler(node, decorator, aliases, constants)) is not None
    ]
    return KopfModule(sorted(handlers, key=lambda each: each.line), dict(_spec_fields(tree)))


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Return names that mean kopf or a part of it: `import kopf as k`, `from kopf import on, timer`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.asname or each.name: "" for each in node.names if each.name == "kopf"}
        elif isinstance(node, ast.ImportFrom) and node.module == "kopf":
            found |= {each.asname or each.name: f"{each.name}." for each in node.names}
    return found


def _handler(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    decorator: ast.expr,
    aliases: Mapping[str, str],
    constants: Mapping[str, Any],
) -> KopfHandler | None:
    call = decorator if isinstance(decorator, ast.Call) else None
    path = ast.unparse(call.func if call is not None else decorator).split(".")
    if path[0] not in aliases:
        return None
    event = (aliases[path[0]] + ".".join(path[1:])).strip(".")
    if event not in _DECORATORS and event not in _NOTES:
        return None
    arguments = [_value(each, constants) for each in call.args] if call is not None else []
    options = {
        each.arg: _value(each.value, constants)
        for each in (call.keywords if call is not None else [])
        if each.arg is not None
    }
    needs_resource = event not in ("on.startup", "on.cleanup", "on.login", "on.probe", "on.subhandler")
    resource = _resource(arguments, options) if needs_resource else None
    return KopfHandler(node.name, node.lineno, event, resource, options)


def _value(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    return constants.get(node.id) if isinstance(node, ast.Name) else None


def _resource(arguments: list[Any], options: Mapping[str, Any]) -> KopfResource | None:
    """Return the resource of (group, version, plural), (group/version, plural) or (plural.group)."""
    names = [each for each in arguments if isinstance(each, str)]
    group, version, plural = "", "v1", ""
    if len(names) >= 3:
        group, version, plural = names[:3]
    elif len(names) == 2:
        group, _, version = names[0].rpartition("/")
        plural = names[1]
    elif names:
        plural, _, group = names[0].partition(".")
    group = options.get("group") or group
    version = options.get("version") or version
    plural = options.get("plural") or plural
    if not plural and isinstance(options.get("kind"), str):
        plural = options["kind"].lower() + "s"
    return KopfResource(group, version, plural.lower()) if plural else None


def _spec_fields(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Find `spec["size"]` and `spec.get("size", 1)`; the second one also gives the default."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is_spec(node.value) and isinstance(node.slice, ast.Constant):
            if isinstance(node.slice.value, str):
                yield node.slice.value, None
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and _is_spec(node.func.value)
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            default = node.args[1] if len(node.args) > 1 else None
            yield node.args[0].value, default.value if isinstance(default, ast.Constant) else None


def _is_spec(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "spec"


__all__ = ["KopfHandler", "KopfModule", "KopfResource", "read_kopf_module"]
