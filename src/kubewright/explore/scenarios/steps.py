"""`Steps`: what a scenario can do with the cluster, and `ClientSteps`, which does it with a client.

Steps are numbered from 0 in the order in which the scenario calls them. A step that is in `skip` does
nothing: a failing run is minimised by leaving out steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar

from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured
from kubewright.api.values.times import Duration
from kubewright.client import Client
from kubewright.client.patches import Patch, merge_patch
from kubewright.client.wait import WaitPredicate, condition, exists, field_is, is_deleted

StepObjectT = TypeVar("StepObjectT", bound=MetaObject | Unstructured | dict[str, Any])
StepKind = type[MetaObject] | str
"""A class, or a name as on the command line: `"ConfigMap"`, `"deployments.apps"`."""

FIELD_MANAGER = "scenario"
DEFAULT_TIMEOUT = 300.0
"""Simulated seconds after which a wait fails."""


class Steps(Protocol):
    """The steps of a scenario. Namespaced objects are in `default` unless another namespace is given."""

    @property
    def client(self) -> Client:
        """A client of an administrator, for everything that is not a step."""
        ...

    async def apply(self, obj: StepObjectT, *, namespace: str | None = None) -> StepObjectT:
        """Apply an object (server-side apply, as the field manager `scenario`)."""
        ...

    async def patch(
        self, kind: StepKind, name: str, patch: dict[str, Any] | Patch, *, namespace: str | None = None
    ) -> None:
        """Patch an object; a dict is a merge patch."""
        ...

    async def delete(self, kind: StepKind, name: str, *, namespace: str | None = None) -> None:
        """Delete an object, without waiting for its finalizers."""
        ...

    async def wait(
        self,
        kind: StepKind,
        name: str,
        *,
        namespace: str | None = None,
        condition: str | WaitPredicate | None = None,
        absent: bool | None = None,
        timeout: float | str = DEFAULT_TIMEOUT,
    ) -> None:
        """Wait until an object has a condition or does not exist, see `wait_predicate`."""
        ...

    async def advance(self, duration: float | str) -> None:
        """Let simulated time pass: seconds, or a duration such as `1h30m`."""
        ...


class ClientSteps:
    """Steps that are sent through a client."""

    def __init__(
        self,
        client: Client,
        *,
        skip: Collection[int] = (),
        on_step: Callable[[int, str, float], None] | None = None,
    ) -> None:
        """`on_step` receives number, description and timeout of each step before it is done."""
        self.client = client
        self.count = 0
        """Number of steps that were called."""
        self.descriptions: list[str] = []
        self._skip = frozenset(skip)
        self._on_step = on_step

    def _begin(self, description: str, *, timeout: float = 0.0) -> bool:
        number = self.count
        self.count += 1
        self.descriptions.append(description)
        if number in self._skip:
            return False
        if self._on_step is not None:
            self._on_step(number, description, timeout)
        return True

    async def apply(self, obj: StepObjectT, *, namespace: str | None = None) -> StepObjectT:
        """Apply an object."""
        if not self._begin(f"apply {_describe(obj)}"):
            return obj
        applied: Any = Unstructured(obj) if isinstance(obj, dict) else obj
        result: Any = await self.client.apply(
            applied, namespace=namespace, force=True, field_manager=FIELD_MANAGER
        )
        stored: StepObjectT = result.raw if isinstance(obj, dict) else result
        return stored

    async def patch(
        self, kind: StepKind, name: str, patch: dict[str, Any] | Patch, *, namespace: str | None = None
    ) -> None:
        """Patch an object."""
        if self._begin(f"patch {_kind_name(kind)} {name}"):
            change = merge_patch(patch) if isinstance(patch, dict) else patch
            await self.client.patch(kind, name, change, namespace=namespace, field_manager=FIELD_MANAGER)

    async def delete(self, kind: StepKind, name: str, *, namespace: str | None = None) -> None:
        """Delete an object."""
        if self._begin(f"delete {_kind_name(kind)} {name}"):
            await self.client.delete(kind, name, namespace=namespace)

    async def wait(
        self,
        kind: StepKind,
        name: str,
        *,
        namespace: str | None = None,
        condition: str | WaitPredicate | None = None,
        absent: bool | None = None,
        timeout: float | str = DEFAULT_TIMEOUT,
    ) -> None:
        """Wait until an object has a condition or does not exist."""
        predicate = wait_predicate(condition, absent=absent)
        until = getattr(predicate, "__name__", "").strip("_").replace("_", " ")
        limit = seconds(timeout)
        if self._begin(f"wait {_kind_name(kind)} {name} until {until}", timeout=limit):
            await self.client.wait(kind, name, namespace=namespace, until=predicate, timeout=limit)

    async def advance(self, duration: float | str) -> None:
        """Let simulated time pass."""
        delay = seconds(duration)
        if self._begin(f"advance {duration if isinstance(duration, str) else f'{delay:g}s'}"):
            await asyncio.sleep(delay)


def wait_predicate(until: str | WaitPredicate | None = None, *, absent: bool | None = None) -> WaitPredicate:
    """Return the predicate of a wait.

    `until` is a condition (`Ready`, `Ready=False`), the value of a field (`{.status.phase}=Running`), or a
    function. `absent` waits until the object does not exist if true, until it exists if false. Exactly one of
    them is set.
    """
    if (until is None) == (absent is None):
        raise ValueError("a wait needs either a condition or absent")
    if absent is not None:
        return is_deleted if absent else exists
    if not isinstance(until, str):
        assert until is not None
        return until
    if until.startswith("{"):
        path, brace, value = until.partition("}=")
        if not brace or not value:
            raise ValueError(f"{until!r} is not a field and its value; write {{.status.phase}}=Running")
        return _field_predicate(f"{path}}}", value)
    name, _, status = until.partition("=")
    if not name:
        raise ValueError("the condition is empty; write Ready or Ready=False")
    return condition(name, status or "True")


def _field_predicate(path: str, text: str) -> WaitPredicate:
    import json

    try:
        value = json.loads(text)
    except ValueError:
        value = text
    as_text, as_value = field_is(path, text), field_is(path, value)

    def predicate(obj: Any) -> bool:
        return as_text(obj) or as_value(obj)

    predicate.__name__ = f"{path}={text}"
    return predicate


def seconds(duration: float | str) -> float:
    """Return the seconds of a number or a duration such as `1h30m`; raise `ValueError` unless positive."""
    value = Duration(duration).total_seconds() if isinstance(duration, str) else float(duration)
    if value <= 0:
        raise ValueError(f"the duration {duration!r} is not greater than 0")
    return value


def _describe(obj: Any) -> str:
    if isinstance(obj, dict):
        metadata = obj.get("metadata") or {}
        return f"{obj.get('kind')} {metadata.get('name')}"
    kind = obj.kind if isinstance(obj, Unstructured) else type(obj).__name__
    return f"{kind} {obj.metadata.name}"


def _kind_name(kind: StepKind) -> str:
    return kind if isinstance(kind, str) else kind.__name__
