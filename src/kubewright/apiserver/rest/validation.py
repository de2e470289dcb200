"""Validation of objects by their schema and their strategy."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import partial
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupVersion
from kubewright.apiserver.resources.object_schema import schema_errors
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import Version
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.slices import run_in_worker
from kubewright.schema import field_errors as fe


async def find_schema_errors(
    op: Operation, obj: Object, old: Object | None, version: Version
) -> list[FieldError]:
    """Validate an object against the schema of a version."""
    if op.is_long:
        return await run_in_worker(partial(schema_errors, obj, old, version, op))
    return schema_errors(obj, old, version, op)


def _strategy_errors(op: Operation, obj: Object, old: Object | None) -> Any:
    """Return the errors of the strategy, or an awaitable for them."""
    strategy = op.resource.strategy
    found: Any = strategy.validate(op, obj) if old is None else strategy.validate_update(op, obj, old)
    return found if inspect.isawaitable(found) else list(found)


async def add_warnings(op: Operation, obj: Object, old: Object | None) -> None:
    """Add the strategy's warnings about a valid object."""
    strategy = op.resource.strategy
    if op.is_long:
        texts: Iterable[str] = await run_in_worker(lambda: list(strategy.warnings(op, obj, old)))
    else:
        texts = strategy.warnings(op, obj, old)
    for text in texts:
        op.warn(text)


async def validate_object(op: Operation, obj: Object, old: Object | None, version: str) -> list[FieldError]:
    """Validate an object of a version, except its metadata."""
    resource = op.resource
    api_version = str(GroupVersion(resource.group, version))
    errors = [
        fe.invalid(name, obj.get(name), f"must be {wanted}")
        for name, wanted in (("kind", resource.kind), ("apiVersion", api_version))
        if obj.get(name) != wanted
    ]
    if errors:
        return errors
    declared = resource.version(version)
    if declared is not None:
        errors = await find_schema_errors(op, obj, old, declared)
    found: Any
    if op.is_long:
        found = await run_in_worker(partial(_strategy_errors, op, obj, old))
    else:
        strategy = resource.strategy
        found = strategy.validate(op, obj) if old is None else strategy.validate_update(op, obj, old)
    if inspect.isawaitable(found):
        found = await found
    errors.extend(found)
    return errors
