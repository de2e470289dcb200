"""The strategy of a resource whose defaults and validation are declared functions."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kubewright.api.encoding.codec import to_plain
from kubewright.api.field_errors import FieldError
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import MaybeAwait, Operation, Strategy
from kubewright.webhook.review import Denied

from .functions import DeclaredFunction, Validation, copy_changes, decode, field_errors, rejection, with_user

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubewright.api.meta import MetaObject
    from kubewright.apiserver.resources.resource import Version

    from .rest.rest import Rest


class DeclaredStrategy(Strategy):
    """Calls the defaulting and validating functions of a resource.

    A defaulting function is called for bodies in its version and, if that is the hub, for objects of other
    versions after their conversion.
    """

    defaults: Mapping[str, Sequence[tuple[type[MetaObject], Callable[[Any], object]]]] = {}
    validations: Sequence[Validation] = ()
    values: Mapping[str, Any] = {}
    rest: Rest[Any] | None = None

    def default(self, version: Version, obj: Object) -> None:
        """Apply the defaults of a version."""
        super().default(version, obj)
        self._apply(version, obj)

    def _apply(self, version: Version, obj: Object) -> None:
        functions = self.defaults.get(version.name)
        if not functions:
            return
        for kind, function in functions:
            typed = decode(obj, kind)
            if typed is None:  # Schema validation follows and has a better message.
                return
            before = to_plain(typed)
            function(typed)
            if copy_changes(before, typed, obj) and version.checks is not None:
                version.checks.default(obj)

    def prepare_for_create(self, op: Operation, obj: Object) -> MaybeAwait:
        """Apply the defaults of the hub to an object of another version."""
        self._default_hub(op, obj)
        return super().prepare_for_create(op, obj)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> MaybeAwait:
        """Apply the defaults of the hub to an object of another version."""
        self._default_hub(op, obj)
        return super().prepare_for_update(op, obj, old)

    def _default_hub(self, op: Operation, obj: Object) -> None:
        hub = op.resource.hub_version
        if hub and hub != op.version.name:
            version = op.resource.version(hub)
            assert version is not None
            self._apply(version, obj)

    async def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """Call the validating functions for a new object."""
        inherited = await _awaited(super().validate(op, obj))
        return [*inherited, *self._unsupported(op, obj, None), *await self._errors(op, "create", obj, None)]

    async def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """Call the validating functions for an update."""
        inherited = await _awaited(super().validate_update(op, obj, old))
        return [*inherited, *self._unsupported(op, obj, old), *await self._errors(op, "update", obj, old)]

    def _unsupported(self, op: Operation, obj: Object, old: Object | None) -> Sequence[FieldError]:
        """Return an error for each changed field that the system of a `Rest` does not store."""
        if self.rest is None:
            return []
        return self.rest.unsupported_changes(obj, old, str(op.resource.group_resource))

    async def _errors(
        self, op: Operation, operation: str, obj: Object, old: Object | None
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        for each in self.validations:
            if operation not in each.operations:
                continue
            new = decode(obj, each.function.kind)
            if new is None:
                return errors or self._mismatch(op, each.function, obj)
            values = {**with_user(self.values, op.user), "operation": op}
            try:
                returned = await each.function((new, decode(old, each.function.kind)), values)
            except Denied as denied:
                resource = op.resource
                raise rejection(denied, resource.group_kind, resource.group_resource, op.name) from None
            errors += field_errors(returned, each.function)
        return errors

    def _mismatch(self, op: Operation, function: DeclaredFunction, obj: Object) -> list[FieldError]:
        """Return an error for an object that matches its schema and not its class."""
        version = op.resource.version(op.resource.hub_version or op.version.name)
        if version is not None and version.checks is not None and version.checks.validate(obj, None).errors:
            return []
        return [FieldError.invalid("", obj, f"does not match the class {function.kind.__name__}")]


async def _awaited(found: Any) -> Iterable[FieldError]:
    result: Iterable[FieldError] = await found if inspect.isawaitable(found) else found
    return result


def strategy_with(
    given: Strategy | None,
    *,
    defaults: Mapping[str, Sequence[tuple[type[MetaObject], Callable[[Any], object]]]],
    validations: Sequence[Validation],
    values: Mapping[str, Any],
    rest: Rest[Any] | None = None,
) -> Strategy:
    """Return a strategy that calls the functions and otherwise behaves as `given`."""
    if given is None:
        strategy: DeclaredStrategy = DeclaredStrategy()
    else:
        base = type(given)
        strategy = type(f"Declared{base.__name__}", (DeclaredStrategy, base), {})()
        strategy.__dict__.update(given.__dict__)
    strategy.defaults, strategy.validations, strategy.values = defaults, validations, values
    strategy.rest = rest
    return strategy
