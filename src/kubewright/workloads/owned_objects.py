"""Read the cached objects of an owner, and map changed objects to the requests of their owners."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import LabelSelector, MetaObject
from kubewright.api.selectors.label_selectors import (
    Selector,
    SelectorError,
    selector_from_labels,
    selector_of,
)
from kubewright.cache.stores.indexes import OWNER
from kubewright.client.decoding import decode_object
from kubewright.controller.request import Request

from .pods import ORPHAN, OwnerSummary, PodSummary

if TYPE_CHECKING:
    from kubewright.cache import Cache
    from kubewright.cache.stores.store import ObjectChange

    from .component_manager import ComponentManager
    from .pods import PodLister

KindT = TypeVar("KindT", bound=MetaObject)


async def owned_objects(
    cache: Cache, kind: type[KindT], owner: MetaObject, *, orphans: bool = True
) -> list[KindT]:
    """Return the cached objects of an owner, and those of its namespace that it could adopt."""
    gvk = kind.gvk
    assert gvk is not None
    informer = await cache.informer(kind)
    await informer.wait_for_sync()
    namespace = owner.namespace
    if informer.has_pending_writes(namespace):
        await informer.wait_for_pending_writes(namespace)
    found = dict(informer.store.indexed(OWNER, owner.metadata.uid or "", namespace))
    if orphans:
        found.update(informer.store.indexed(OWNER, ORPHAN, namespace))
    return [decode_object(entry.raw, kind, gvk) for entry in found.values()]


class _SelectorSpec(msgspec.Struct, rename="camel"):
    selector: LabelSelector | None = None


class _SelectorObject(msgspec.Struct, rename="camel"):
    spec: _SelectorSpec | None = None


class _LabelsSpec(msgspec.Struct, rename="camel"):
    selector: dict[str, str] | None = None


class _LabelsObject(msgspec.Struct, rename="camel"):
    spec: _LabelsSpec | None = None


_decode_selector = msgspec.json.Decoder(_SelectorObject).decode
_decode_labels = msgspec.json.Decoder(_LabelsObject).decode


def _selector(raw: bytes, *, labels_only: bool) -> Selector | None:
    spec: Any = (_decode_labels if labels_only else _decode_selector)(raw).spec
    try:
        found = selector_from_labels(spec.selector) if labels_only else selector_of(spec.selector)
    except (AttributeError, SelectorError):
        return None
    return None if found.empty else found


def possible_owners(
    cache: Cache, kind: type[MetaObject], namespace: str, labels: dict[str, str] | None
) -> list[Request]:
    """Return the cached objects of a kind whose selector matches labels."""
    informer = cache.existing_informer(kind)
    if informer is None or not labels:
        return []
    labels_only = kind.gvk == GroupVersionKind("", "v1", "ReplicationController")
    return [
        Request(*key)
        for key, entry in informer.store.entries(namespace)
        if (selector := _selector(entry.raw, labels_only=labels_only)) is not None
        and selector.matches(labels)
    ]


class PodOwnerHandler:
    """Event handler for pods: enqueues their owners of a kind, or those that could adopt an orphan."""

    def __init__(
        self,
        manager: ComponentManager,
        kind: type[MetaObject],
        *,
        relevant: Callable[[PodSummary], object],
    ) -> None:
        """`relevant` returns what the owner looks at; changes of anything else are ignored."""
        assert kind.gvk is not None
        self._pods: PodLister = manager.pods
        self._cache = manager.cache
        self._kind = kind
        self._gvk = kind.gvk
        self._relevant = relevant

    def __call__(self, change: ObjectChange) -> Iterable[Request]:
        """Return the requests for a change."""
        old, new = self._pods.versions(change)
        owner, old_owner = self._owner(new), self._owner(old)
        found = set()
        if old_owner is not None and owner != old_owner:
            found.add(Request(change.key.namespace, old_owner.name))
        if new is None:
            return found
        if owner is not None:
            if old is None or owner != old_owner or self._relevant(old) != self._relevant(new):
                found.add(Request(change.key.namespace, owner.name))
        elif new.controller is None and (
            old is None or old.controller is not None or old.labels != new.labels
        ):
            found.update(possible_owners(self._cache, self._kind, change.key.namespace, new.labels))
        return found

    def _owner(self, pod: PodSummary | None) -> OwnerSummary | None:
        controller = pod.controller if pod is not None else None
        if controller is None or controller.kind != self._gvk.kind:
            return None
        return controller if controller.api_version.rpartition("/")[0] == self._gvk.group else None
