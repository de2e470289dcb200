"""`CycleState`: data that the plug-ins of one scheduling cycle share."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class Cloneable(Protocol):
    """State that preemption simulates changes on; other state is shared by the clones."""

    def clone(self) -> Any:
        """Return an independent copy."""


class CycleState:
    """Data of one scheduling cycle, by the class of the stored object or any other key."""

    __slots__ = ("_data", "skip_filter", "skip_score")

    def __init__(self) -> None:
        self._data: dict[Any, Any] = {}
        self.skip_filter: set[str] = set()
        """Plug-ins whose PreFilter returned Skip."""
        self.skip_score: set[str] = set()
        """Plug-ins whose PreScore returned Skip."""

    def write(self, key: Any, value: Any) -> None:
        """Store data; by convention the key is the class of the data."""
        self._data[key] = value

    def read(self, key: type[T]) -> T:
        """Return stored data; `KeyError` if it was not written in this cycle."""
        value: T = self._data[key]
        return value

    def get(self, key: type[T]) -> T | None:
        """Return stored data, or `None`."""
        return self._data.get(key)

    def delete(self, key: Any) -> None:
        """Remove data if it exists."""
        self._data.pop(key, None)

    def clone(self) -> CycleState:
        """Return a copy; data with a `clone` method is copied, other data is shared."""
        new = CycleState()
        new.skip_filter = self.skip_filter
        new.skip_score = self.skip_score
        new._data = {
            key: value.clone() if isinstance(value, Cloneable) else value for key, value in self._data.items()
        }
        return new
