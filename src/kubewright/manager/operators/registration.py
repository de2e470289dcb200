"""Checks of what decorators of an operator receive, with messages that name the source line or the option."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar

from kubewright.api.declaring.declarations import MatchCondition, resource
from kubewright.api.declaring.keywords import keyword_error
from kubewright.api.meta import LabelSelector, MetaObject

from .injection import InjectionError, describe

P = ParamSpec("P")
R = TypeVar("R")


class WebhookOptions(TypedDict, total=False):
    """Options of `Operator.default` and `Operator.validate`; see `kubewright.api.Webhook`."""

    failure_policy: Literal["Fail", "Ignore"]
    match_policy: Literal["Exact", "Equivalent"] | None
    side_effects: Literal["None", "NoneOnDryRun"]
    timeout_seconds: int | None
    reinvocation_policy: Literal["Never", "IfNeeded"] | None
    admission_review_versions: tuple[str, ...]
    namespace_selector: LabelSelector | None
    object_selector: LabelSelector | None
    match_conditions: tuple[MatchCondition, ...]
    scope: Literal["Namespaced", "Cluster", "*"] | None
    name: str
    path: str
    url: str
    service_name: str
    service_namespace: str
    service_port: int | None
    ca_bundle: str | None


def import_submodules(package: str) -> None:
    """Import a package and its submodules, except `__main__`."""
    module = importlib.import_module(package)
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{module.__name__}."):
        if found.name.rpartition(".")[2] != "__main__":
            importlib.import_module(found.name)


def suggest_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method of `Operator` so that an unknown keyword argument raises a `TypeError` that names
    the right one."""
    parameters = inspect.signature(function).parameters.values()
    known = [each.name for each in parameters if each.name not in ("self", "kind")]
    name = "Operator" if function.__name__ == "__init__" else f"@operator.{function.__name__}"

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        check_keywords(name, kwargs, known)
        return function(*args, **kwargs)

    return wrapper


def check_keywords(name: str, keywords: Mapping[str, object], known: Iterable[str]) -> None:
    """Raise a `TypeError` for keywords that a callable does not have, with the right ones."""
    names = list(known)
    if any(keyword not in names and keyword != "kind" for keyword in keywords):
        others = {"@resource": inspect.signature(resource).parameters}
        raise keyword_error(name, (each for each in keywords if each != "kind"), names, others=others)


def check_object_kind(kind: type[MetaObject] | str) -> None:
    """Raise an error for a class that is not a kind, or a name that is not a resource such as `pods`."""
    if not isinstance(kind, str):
        check_kind(kind)
    elif not re.fullmatch(r"[a-z0-9]+(\.[a-z0-9.-]+)?", kind):
        raise TypeError(f"{kind!r} is not a resource; expected its plural and group: deployments.apps")


def kind_name(kind: type[MetaObject] | str) -> str:
    """Return the name of a kind for messages and loggers."""
    return kind if isinstance(kind, str) else kind.__name__


def check_kind(kind: type[MetaObject]) -> None:
    """Raise an error for a class that is not a kind."""
    if inspect.isfunction(kind):
        raise InjectionError(
            f"{describe(kind)}: pass the kind to the decorator, as in @operator.reconcile(Shop)"
        )
    if getattr(kind, "gvk", None) is None:
        name = getattr(kind, "__name__", kind)
        raise TypeError(f"{name} is not a kind; decorate it with @resource(group=..., version=...)")


def check_predicates(predicates: Iterable[Any]) -> tuple[Callable[..., bool], ...]:
    """Return the predicates; raise a `TypeError` for one that cannot be called."""
    tests = as_sequence("predicates", predicates)
    for test in tests:
        if not callable(test):
            raise TypeError(
                f"predicates: {test!r} is not a predicate; expected a function from a Change to bool"
            )
    return tests


def as_sequence(name: str, values: Any) -> tuple[Any, ...]:
    """Return the values of an option that takes several; raise a `TypeError` for a single value."""
    if isinstance(values, Iterable) and not isinstance(values, str | type):
        return tuple(values)
    shown = getattr(values, "__name__", repr(values))
    raise TypeError(f"{name}={shown}: expected a sequence: {name}=({shown},)")


def dashed_name(function: Callable[..., object], suffix: str) -> str:
    """Return the name of a function with dashes and a suffix, for a controller."""
    return f"{getattr(function, '__name__', suffix)}-{suffix}".replace("_", "-")
