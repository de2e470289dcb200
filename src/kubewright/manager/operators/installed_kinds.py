"""The kinds of an operator: those whose CRDs it installs, and those that must be served."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kubewright.api.declaring.declarations import is_resource, resource_info
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject

from .installation import InstallationError

if TYPE_CHECKING:
    from .declared_functions import ObjectHandler
    from .object_functions import ObjectFunctions
    from .operator import Operator


def installed_kinds(functions: ObjectFunctions) -> list[type[MetaObject]]:
    """Return the custom resources that an operator or a fleet installs; see `Operator.kinds`."""
    found: dict[GroupVersionKind, type[MetaObject]] = {}
    modules = dict.fromkeys(_function_modules(functions))
    for kind in _declared_kinds(functions):
        modules[kind.__module__] = None
        _add(found, kind)
    pending = list(modules)
    while pending:
        home = pending.pop()
        for value in list(vars(sys.modules[home]).values()) if home in sys.modules else ():
            if is_resource(value) and _same_project(value.__module__, home):
                _add(found, value)
                if value.__module__ not in modules:
                    modules[value.__module__] = None
                    pending.append(value.__module__)
    return list(found.values())


def required_kinds(functions: ObjectFunctions) -> list[type[MetaObject]]:
    """Return the kinds that must be served before controllers start: reconciled, owned and watched ones."""
    every = _declared_kinds(functions)
    for handler in functions.reconcilers:
        every += handler.owns
    every += [
        each.kind for each in functions.watched_kinds() if isinstance(each.kind, type) and not each.optional
    ]
    return list(dict.fromkeys(every))


def check_conversions(operator: Operator) -> None:
    """Raise `InstallationError` for a conversion that is declared, but not served, or the reverse."""
    converted = set(operator.converted_kinds())
    declared = {info.gvk.group_kind for info in map(resource_info, operator.kinds) if info.conversion}
    for kind in operator.kinds:
        info = resource_info(kind)
        if info.gvk.group_kind in converted - declared:
            raise InstallationError(
                f"{info.where}: operator {operator.name} has a converter for {info.gvk.kind}, but an API "
                "server does not call it; declare conversion=WebhookConversion() on the hub"
            )
        if info.conversion is None or info.conversion.url or info.gvk.group_kind in converted:
            continue
        raise InstallationError(
            f"{info.where}: {info.gvk.kind} declares conversion=WebhookConversion(), but operator "
            f"{operator.name} has no converter for it; add one with operator.convert(...), or remove "
            "conversion="
        )


def _declared_kinds(functions: ObjectFunctions) -> list[type[MetaObject]]:
    """Return the kinds that functions and converters are declared for."""
    every = [each.kind for each in _handlers(functions) if not isinstance(each.kind, str)]
    operator = _as_operator(functions)
    if operator is not None:
        every += [*operator.defaults, *operator.validators]
        every += [kind for converter in operator.converters for kind in converter.types]
        for fleet in operator.fleets:
            every += _declared_kinds(fleet) if fleet.local else ()
    return list(dict.fromkeys(every))


def _function_modules(functions: ObjectFunctions) -> Iterable[str]:
    """Return the modules of the functions of an operator or a fleet."""
    found: list[object] = [each.function for each in _handlers(functions)]
    operator = _as_operator(functions)
    if operator is not None:
        found += [each.function for each in (*operator.defaults.values(), *operator.validators.values())]
        found += [each.function for each in (*operator.startup, *operator.cleanup)]
    for function in found:
        module = getattr(function, "__module__", None)
        if module:
            yield module


def _handlers(functions: ObjectFunctions) -> list[ObjectHandler]:
    return [
        *functions.reconcilers,
        *functions.timers,
        *functions.daemons,
        *functions.finalizers.values(),
    ]


def _as_operator(functions: ObjectFunctions) -> Operator | None:
    from .operator import Operator

    return functions if isinstance(functions, Operator) else None


def _same_project(module: str, other: str) -> bool:
    return module.partition(".")[0] == other.partition(".")[0]


def _add(found: dict[GroupVersionKind, type[MetaObject]], kind: type[MetaObject]) -> None:
    if is_resource(kind):
        info = resource_info(kind)
        if not info.external and not info.skip:
            found.setdefault(info.gvk, kind)
