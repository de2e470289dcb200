"""Validation of objects by their schema and their strategy."""

from __future__ import annotations

import inspect
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupVersion
from kubewright.apiserver.object_schema import schema_errors
from kubewright.apiserver.objects import Object
from kubewright.apiserver.strategy import Operation
from kubewright.schema import field_errors as fe


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
    errors = schema_errors(obj, old, declared, op) if declared is not None else []
    strategy = resource.strategy
    found: Any = strategy.validate(op, obj) if old is None else strategy.validate_update(op, obj, old)
    if inspect.isawaitable(found):
        found = await found
    errors.extend(found)
    return errors
