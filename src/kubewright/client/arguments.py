"""Keyword arguments of the verbs, as typed dictionaries.

Overloads and wrappers declare `**arguments: Unpack[ListArguments]`, so editors and type checkers show every
parameter. The verbs of `Client` document them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from kubewright.api.meta import Preconditions

from .selectors import Fields, Labels

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from .rest.rate_limit import TokenBucket
    from .rest.request import RequestHook
    from .rest.retry_policy import RetryPolicy

Propagation = Literal["Background", "Foreground", "Orphan"]
FieldValidation = Literal["Strict", "Warn", "Ignore"]


class ConnectOptions(TypedDict, total=False):
    """Keyword arguments of `Client.connect`."""

    context: str
    retries: RetryPolicy | None
    rate_limit: TokenBucket | None
    hooks: Sequence[RequestHook]
    user_agent: str
    on_warning: Callable[[str], None] | None
    metrics: bool
    registry: CollectorRegistry | None
    tracing: bool
    max_response_bytes: int
    compress_watch_lists: bool
    cbor: bool


class GetArguments(TypedDict, total=False):
    """Keyword arguments of `get` and `get_or_none`."""

    namespace: str | None
    resource_version: str


class ListArguments(TypedDict, total=False):
    """Keyword arguments of `list`."""

    namespace: str | None
    labels: Labels | None
    fields: Fields | None
    limit: int | None
    page_size: int
    resource_version: str
    resource_version_match: str


class WatchArguments(TypedDict, total=False):
    """Keyword arguments of `watch`."""

    name: str | None
    namespace: str | None
    labels: Labels | None
    fields: Fields | None
    resource_version: str
    bookmarks: bool
    resume: bool


class WriteArguments(TypedDict, total=False):
    """Keyword arguments that all writes share."""

    dry_run: bool
    field_manager: str
    field_validation: FieldValidation | None


class PatchArguments(WriteArguments, total=False):
    """Keyword arguments of `patch` but the name."""

    namespace: str | None
    subresource: str
    optimistic_lock: bool


class ApplyArguments(WriteArguments, total=False):
    """Keyword arguments of `apply`."""

    namespace: str | None
    force: bool
    subresource: str


class DeleteArguments(TypedDict, total=False):
    """Keyword arguments of `delete`."""

    namespace: str | None
    propagation: Propagation | None
    grace_period: int | None
    preconditions: Preconditions | None
    missing_ok: bool
    dry_run: bool
