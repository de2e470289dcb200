"""Handlers of a kopf module, read from its source without importing it.

Each handler is listed with the decorator that it becomes, as in docs/coming-from-kopf.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
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
    "timer": "@operator.timer({kind}{arguments})",
    "daemon": "@operator.daemon({kind}{arguments})",
    "index": '@operator.index({kind}, "{name}")',
}
_NOTES: Final = {
    "on.event": "called for the current state of the object, not for each event",
    "on.probe": "becomes operator.probes.add_health_check(name, function)",
    "on.login": "not needed: the client reads the kubeconfig or the ServiceAccount",
    "on.subhandler": "becomes a plain function call in the handler",
}
_ARGUMENTS: Final = {
    "timer": ("interval", "initial_delay", "idle", "sharp"),
    "daemon": ("initial_delay",),
}
"""Options that the decorator of Kubewright has as well."""
_OPTION_NOTES: Final = {
    "labels": "return early if the labels do not match, or use predicates of `@operator.reconcile`",
    "annotations": "return early if the annotations do not match, or use predicates of `@operator.reconcile`",
    "when": "call the condition first, and return early",
    "field": "compare the field first, and return early; `@operator.on.field` is called for its changes",
    "value": "compare the value first, and return early",
    "old": "compare the old value first, and return early",
    "new": "compare the new value first, and return early",
    "optional": "a finalizer is always added; delete children by owner references instead of a handler",
    "retries": "retries do not end; raise `TerminalError` to stop them",
    "timeout": "retries do not end; raise `TerminalError` to stop them",
    "errors": "raise `TerminalError` for errors that must not be retried",
    "backoff": "`raise TemporaryError(..., delay=...)`, or `rate_limiter=` of `@operator.reconcile`",
    "param": "call the function with the value",
    "cancellation_backoff": "`stop_timeout=`",
    "cancellation_timeout": "`stop_timeout=`",
    "cancellation_polling": "not needed: the task of the daemon is cancelled",
    "operation": "`on=` of `@operator.validate`",
    "operations": "`on=` of `@operator.validate`",
    "subresource": "register the subresource in the webhook declaration (`Webhook`)",
    "side_effects": "`side_effects=`",
    "persistent": "validating webhooks of a project are always persistent",
    "deleted": "the function is not called for objects that are being deleted; use `@operator.finalize`",
}
"""How options are ported that the decorator of Kubewright does not have."""
_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_WITHOUT_RESOURCE: Final = ("on.startup", "on.cleanup", "on.login", "on.probe", "on.subhandler")
_READ: Final = frozenset(("group", "version", "kind", "plural", "singular", "shortcut", "id", "registry"))
"""Options that name the resource or the handler."""


@dataclass(frozen=True)
class KopfResource:
    """Resource of a handler, as far as the decorator names it; group and version can be empty."""

    group: str
    version: str
    name: str
    """The plural, singular or short name, the kind, or a category."""

    def __str__(self) -> str:
        return ".".join(each for each in (self.name, self.version, self.group) if each)

    def matches(self, group: str, version: str, names: Iterable[str]) -> bool:
        """Return whether a version of a kind with these names can be meant."""
        return (
            self.group in ("", group)
            and self.version in ("", version)
            and self.name.lower() in {name.lower() for name in names}
        )


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
        given = {"interval": 60, **self.options} if self.event == "timer" else self.options
        arguments = "".join(
            f", {name}={given[name]!r}"
            for name in _ARGUMENTS.get(self.event, ())
            if isinstance(given.get(name), int | float)
        )
        return pattern.format(
            kind=kind, name=self.function, field=self.options.get("field", "spec"), arguments=arguments
        )

    @property
    def note(self) -> str:
        """What differs, or how it is ported if there is no decorator; options that are not carried over."""
        notes = [_NOTES[self.event]] if self.event in _NOTES else []
        if self.needs_resource and self.resource is None:
            notes.append("declare a function for each kind; the decorator does not name one")
        carried = {*_READ, *_ARGUMENTS.get(self.event, ())}
        if self.event == "on.field":
            carried.add("field")
        for name in self.options:
            if name not in carried:
                notes.append(f"`{name}`: {_OPTION_NOTES.get(name, 'not carried over')}")
        return "; ".join(notes)

    @property
    def needs_resource(self) -> bool:
        """Whether the handler is called for objects."""
        return self.event not in _WITHOUT_RESOURCE


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
    resource = None if event in _WITHOUT_RESOURCE else _resource(arguments, options)
    return KopfHandler(node.name, node.lineno, event, resource, options)


def _value(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    return constants.get(node.id) if isinstance(node, ast.Name) else None


def _resource(arguments: list[Any], options: Mapping[str, Any]) -> KopfResource | None:
    """Return the resource of the forms that kopf accepts: `(group, version, name)`, `(group/version, name)`,
    `(group, name)`, `(version, name)`, `(name.group)`, `(name)`, and keywords.
    """
    names = [each for each in arguments if isinstance(each, str)]
    group, version, name = "", "", ""
    if len(names) >= 3:
        group, version, name = names[:3]
    elif len(names) == 2:
        group, _, version = names[0].rpartition("/")
        if not group and not _VERSION.fullmatch(version):
            group, version = version, ""
        name = names[1]
    elif names:
        name, _, group = names[0].partition(".")
        if _VERSION.fullmatch(group.partition(".")[0]):
            version, _, group = group.partition(".")
    group = options.get("group") or group
    version = options.get("version") or version
    name = next(
        (
            options[key]
            for key in ("plural", "singular", "kind", "shortcut")
            if isinstance(options.get(key), str)
        ),
        name,
    )
    return KopfResource(group, version, name) if name else None


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
