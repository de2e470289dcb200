"""Options of requests in queries and, for deletions, in bodies.

`parse_*` functions return them validated, with the errors of kube-apiserver, which decodes a query to
ListOptions, CreateOptions, UpdateOptions, PatchOptions or DeleteOptions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kubewright.api.errors import APIError, BadRequest, invalid
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind
from kubewright.api.selectors.field_selectors import FieldSelector, parse_field_selector
from kubewright.api.selectors.label_selectors import Selector, SelectorError, parse_selector
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.apiserver.http.request_info import is_watch_value
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import field_manager_errors

META = "meta.k8s.io"


class ListOptions(NamedTuple):
    """ListOptions of a list, watch or deletecollection."""

    labels: Selector | None = None
    fields: FieldSelector | None = None
    limit: int = 0
    continue_: str = ""
    resource_version: str = ""
    match: str = ""
    send_initial_events: bool | None = None
    bookmarks: bool = False
    timeout: int = 0


EVERYTHING = ListOptions()


def parse_list_options(request: HTTPRequest, *, watch: bool = False) -> ListOptions:
    """Parse and validate the query of a collection request."""
    query = request.query
    if not query:
        return EVERYTHING
    try:
        text = query.get("labelSelector")
        labels = parse_selector(text) if text else None
        text = query.get("fieldSelector")
        fields = parse_field_selector(text) if text else None
    except SelectorError as error:
        raise BadRequest(str(error)) from None
    initial = query.get("sendInitialEvents")
    options = ListOptions(
        labels if labels is not None and not labels.empty else None,
        fields if fields is not None and not fields.empty else None,
        max(integer(query.get("limit")), 0) if "limit" in query else 0,
        query.get("continue"),
        query.get("resourceVersion"),
        query.get("resourceVersionMatch"),
        is_watch_value(initial) if initial else None,
        "allowWatchBookmarks" in query and is_watch_value(query.get("allowWatchBookmarks")),
        integer(query.get("timeoutSeconds")) if "timeoutSeconds" in query else 0,
    )
    errors = _watch_errors(options) if watch else _list_errors(options)
    if errors:
        raise invalid(GroupKind(META, "ListOptions"), "", errors)
    return options


def watch_list_disabled() -> APIError:
    """Return the error of a watch with `sendInitialEvents` on a server that does not support it."""
    why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
    return invalid(GroupKind(META, "ListOptions"), "", [fe.forbidden("sendInitialEvents", why)])


def integer(text: str) -> int:
    """Parse an integer of a query."""
    sign = text[1:] if text[:1] in ("+", "-") else text
    if not (sign.isascii() and sign.isdigit()):
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    # int() rejects very long texts
    value = int(text) if len(text) < 100 else 1 << 63
    if not -(1 << 63) <= value < 1 << 63:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def _list_errors(options: ListOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    match, version = options.match, options.resource_version
    if match:
        if not version:
            errors.append(
                fe.forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                )
            )
        if options.continue_:
            errors.append(
                fe.forbidden(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"
                )
            )
        if match not in ("Exact", "NotOlderThan"):
            errors.append(fe.not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
        elif match == "Exact" and version == "0":
            errors.append(
                fe.forbidden(
                    "resourceVersionMatch",
                    'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
                )
            )
    if options.send_initial_events is not None:
        errors.append(fe.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(options: ListOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    match = options.match
    if options.send_initial_events is not None:
        if match != "NotOlderThan":
            errors.append(
                fe.forbidden(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                )
            )
            if match:
                errors.append(fe.not_supported("resourceVersionMatch", match, ("NotOlderThan",)))
    elif match:
        errors.append(
            fe.forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
        )
        if match != "NotOlderThan":
            errors.append(fe.not_supported("resourceVersionMatch", match, ("NotOlderThan",)))
    if options.continue_ and (options.send_initial_events is not None or _starts_over(options)):
        errors.append(
            fe.forbidden(
                "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"
            )
        )
    return errors


def _starts_over(options: ListOptions) -> bool:
    """Whether a watch starts with existing objects because it has no resource version."""
    return options.resource_version in ("", "0") and not options.match


class WriteOptions(NamedTuple):
    """Options of a create, update or patch."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool | None = None

    def to_object(self, kind: str) -> dict[str, Any]:
        """Return CreateOptions, UpdateOptions or PatchOptions for admission."""
        options: dict[str, Any] = {"kind": kind, "apiVersion": f"{META}/v1"}
        if self.dry_run:
            options["dryRun"] = ["All"]
        if self.force is not None:
            options["force"] = self.force
        if self.field_manager:
            options["fieldManager"] = self.field_manager
        if self.field_validation != "Warn":
            options["fieldValidation"] = self.field_validation
        return options


DEFAULT_WRITE = WriteOptions()


def parse_write_options(request: HTTPRequest, kind: str, *, apply: bool | None = None) -> WriteOptions:
    """Parse and validate the query of a write. `apply`, for patches: whether it is an apply patch."""
    query = request.query
    if not query and not apply:
        return DEFAULT_WRITE
    dry_run, manager = query.all("dryRun"), query.get("fieldManager")
    validation, forced = query.get("fieldValidation"), query.get("force")
    force = is_watch_value(forced) if forced else None
    errors: list[FieldError] = []
    if apply is not None:
        if apply and not manager:
            errors.append(fe.required("fieldManager", "is required for apply patch"))
        if not apply and force is not None:
            errors.append(fe.forbidden("force", "may not be specified for non-apply patch"))
    errors += field_manager_errors(manager, "fieldManager")
    errors += dry_run_errors(dry_run)
    if validation not in ("", "Ignore", "Strict", "Warn"):
        errors.append(fe.not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    if errors:
        raise invalid(GroupKind(META, kind), "", errors)
    return WriteOptions(bool(dry_run), manager, validation or "Warn", force)


def dry_run_errors(dry_run: list[str]) -> list[FieldError]:
    """Validate `dryRun`, which can only be `All`."""
    return [fe.not_supported("dryRun", dry_run, ("All",))] if set(dry_run) - {"All"} else []


IGNORE_READ_ERROR = "ignoreStoreReadErrorWithClusterBreakingPotential"


class DeletionOptions(NamedTuple):
    """DeleteOptions of a request."""

    grace_period: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = None
    orphan_dependents: bool | None = None
    dry_run: bool = False
    ignore_read_error: bool = False
    """Whether an object that cannot be decoded is deleted."""

    def to_object(self) -> dict[str, Any]:
        """Return DeleteOptions for admission."""
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": f"{META}/v1"}
        if self.grace_period is not None:
            options["gracePeriodSeconds"] = self.grace_period
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        preconditions = {key: value for key, value in preconditions.items() if value is not None}
        if preconditions:
            options["preconditions"] = preconditions
        if self.orphan_dependents is not None:
            options["orphanDependents"] = self.orphan_dependents
        if self.propagation is not None:
            options["propagationPolicy"] = self.propagation
        if self.dry_run:
            options["dryRun"] = ["All"]
        return options


def parse_delete_options(request: HTTPRequest, body: dict[str, Any] | None) -> DeletionOptions:
    """Validate the options of a delete: those of the body if there is one, otherwise of the query."""
    grace: int | None
    if body is not None:
        has_preconditions = body.get("preconditions") is not None
        preconditions = body.get("preconditions") or {}
        grace = body.get("gracePeriodSeconds")
        orphan, policy = body.get("orphanDependents"), body.get("propagationPolicy")
        dry_run = list(body.get("dryRun") or [])
        uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
        ignore = bool(body.get(IGNORE_READ_ERROR))
    else:
        query = request.query
        grace = integer(query.get("gracePeriodSeconds")) if query.get("gracePeriodSeconds") else None
        orphan = is_watch_value(query.get("orphanDependents")) if query.get("orphanDependents") else None
        policy = query.get("propagationPolicy") if "propagationPolicy" in query else None
        dry_run, uid, version = query.all("dryRun"), None, None
        has_preconditions = False
        ignore = bool(query.get(IGNORE_READ_ERROR)) and is_watch_value(query.get(IGNORE_READ_ERROR))
    errors: list[FieldError] = []
    if policy is not None and orphan is not None:
        errors.append(
            fe.invalid(
                "propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"
            )
        )
    if policy is not None and policy not in ("Foreground", "Background", "Orphan"):
        errors.append(
            fe.not_supported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil"))
        )
    errors += dry_run_errors(dry_run)
    if ignore:
        others = {
            "dryRun": bool(dry_run),
            "propagationPolicy": policy is not None,
            "orphanDependents": orphan is not None,
            "gracePeriodSeconds": grace is not None,
            "preconditions": has_preconditions,
        }
        errors += [
            fe.invalid(IGNORE_READ_ERROR, True, f"cannot be set together with .{name}")
            for name, is_set in others.items()
            if is_set
        ]
    if errors:
        raise invalid(GroupKind(META, "DeleteOptions"), "", errors)
    return DeletionOptions(grace, uid, version, policy, orphan, bool(dry_run), ignore)


def parse_version(text: str, wrap: str = "") -> int:
    """Parse a resourceVersion of a query. `wrap` is the prefix of the 400 of lists; others return 500."""
    if not text or text == "0":
        return 0
    why = "invalid syntax"
    if text.isascii() and text.isdigit():
        if len(text) < 100 and int(text) < 1 << 64:
            return int(text)
        why = "value out of range"
    message = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}'
    if wrap:
        raise BadRequest(f"{wrap}: {message}")
    raise APIError(message, code=500)
