"""Declarations of custom resources, permissions and webhooks.

`@resource` declares group, version and kind of a class and what a CustomResourceDefinition has beside the
schema: scope, short names, columns, subresources, storage version. `Rbac`, `Webhook` and
`WebhookConfiguration` are plain values. `kubewright.manifests` collects them from the modules of a project:
assigned to a name, in a list or tuple, passed to `@declares(...)` on a function or class, or returned by the
`declarations()` of an object such as an operator.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import NoneType
from typing import Any, Final, Literal, Never, Protocol, TypeVar, get_origin, runtime_checkable

import msgspec

from kubewright.api.annotations import own_annotations
from kubewright.api.gvk import GroupVersionKind, GroupVersionResource
from kubewright.api.meta import CustomResource, LabelSelector
from kubewright.api.objects import Object

from . import keywords
from .dashboard_views import DashboardView
from .keywords import explain_keywords, keyword_error

Scope = Literal["Namespaced", "Cluster"]
ColumnType = Literal["string", "integer", "number", "boolean", "date"]
ClassT = TypeVar("ClassT", bound=type[Object])
AnyT = TypeVar("AnyT")

_OWN_FILES: Final = (__file__, keywords.__file__, "<string>")
_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"


def _caller() -> str:
    """Return `file:line` of the code that creates a declaration."""
    frame = sys._getframe(1)
    # Skip this module, the wrapper of explain_keywords and the generated __init__ of the dataclass.
    while frame.f_back is not None and frame.f_code.co_filename in _OWN_FILES:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@explain_keywords
@dataclass(frozen=True)
class Column:
    """A column that `kubectl get` prints; `priority` above 0 shows it in wide output only."""

    name: str
    json_path: str
    type: ColumnType = "string"
    _: KW_ONLY
    format: str = ""
    description: str = ""
    priority: int = 0


@explain_keywords
@dataclass(frozen=True)
class Scale:
    """Paths of the scale subresource; autoscalers need `selector`, a string in the status."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str | None = None


@explain_keywords
@dataclass(frozen=True)
class WebhookConversion:
    """Conversion between versions by a webhook, at a service or at a URL."""

    _: KW_ONLY
    service_name: str = "webhook-service"
    service_namespace: str = "system"
    service_port: int | None = None
    path: str = "/convert"
    url: str | None = None
    ca_bundle: str | None = None
    review_versions: tuple[str, ...] = ("v1",)


@dataclass(frozen=True)
class ResourceInfo:
    """Properties of a resource beside its schema; `resource_info(cls)` returns them."""

    gvk: GroupVersionKind
    plural: str
    singular: str
    list_kind: str
    scope: Scope = "Namespaced"
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    status: bool | None = None
    scale: Scale | None = None
    storage: bool = False
    served: bool = True
    deprecated: bool = False
    deprecation_warning: str | None = None
    selectable_fields: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    conversion: WebhookConversion | None = None
    hub: bool = False
    skip: bool = False
    external: bool = False
    where: str = ""

    @property
    def gvr(self) -> GroupVersionResource:
        """Group, version and resource name."""
        return GroupVersionResource(self.gvk.group, self.gvk.version, self.plural)

    @property
    def namespaced(self) -> bool:
        """Whether objects are in a namespace."""
        return self.scope == "Namespaced"


def resource(
    *,
    group: str,
    version: str,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    list_kind: str | None = None,
    scope: Scope = "Namespaced",
    short_names: Iterable[str] = (),
    categories: Iterable[str] = (),
    columns: Iterable[Column] = (),
    status: bool | None = None,
    scale: Scale | None = None,
    storage: bool = False,
    served: bool = True,
    deprecated: bool = False,
    deprecation_warning: str | None = None,
    selectable_fields: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    dashboard: DashboardView | None = None,
    conversion: WebhookConversion | None = None,
    hub: bool = False,
    skip: bool = False,
    external: bool = False,
    **unknown: Never,
) -> Callable[[ClassT], ClassT]:
    """Declare a class as a kind of `group` and `version`.

    By default, `kind` is the name of the class, `plural` its English plural, and there is a status
    subresource if the class has a status. If a kind has several versions, one of them has `storage=True`;
    conversions go through the one with `hub=True`, by default the storage version. `skip=True` excludes the
    version from manifests. `external=True` is for a kind whose CRD another project installs: it is neither
    part of the manifests nor installed in development, and the class needs only the fields that are used.
    `dashboard` has columns and panels for the dashboard.
    """
    if unknown:
        known = [name for name in inspect.signature(resource).parameters if name != "unknown"]
        raise keyword_error("@resource", unknown, known)
    if not re.fullmatch(_DNS_SUBDOMAIN, group) or "." not in group:
        raise ValueError(f"group {group!r} is not a lower-case domain with a dot, such as webapp.example.com")
    if not re.fullmatch(_DNS_LABEL, version):
        raise ValueError(f"version {version!r} is not a lower-case name such as v1 or v1alpha1")
    if scope not in ("Namespaced", "Cluster"):
        raise ValueError(f'scope {scope!r} is not "Namespaced" or "Cluster"')
    for name in ("short_names", "categories", "selectable_fields"):
        if isinstance(locals()[name], str):
            raise TypeError(f'{name} is a string; write a tuple, {name}=("{locals()[name]}",)')

    where = _caller()

    def declare(cls: ClassT) -> ClassT:
        named = kind or cls.__name__
        if not re.fullmatch("[A-Z][A-Za-z0-9]*", named):
            raise ValueError(f"kind {named!r} is not a CamelCase name such as Guestbook")
        if CustomResource in cls.__bases__ and not _declares_spec_and_status(cls):
            raise TypeError(
                f"{cls.__name__} does not declare its spec and status; write class {cls.__name__}"
                f"(CustomResource[{cls.__name__}Spec, {cls.__name__}Status]), or None for no status"
            )
        info = ResourceInfo(
            gvk=GroupVersionKind(group, version, named),
            plural=plural or pluralize(named.lower()),
            singular=singular or named.lower(),
            list_kind=list_kind or named + "List",
            scope=scope,
            short_names=tuple(short_names),
            categories=tuple(categories),
            columns=tuple(columns),
            status=status,
            scale=scale,
            storage=storage,
            served=served,
            deprecated=deprecated or deprecation_warning is not None,
            deprecation_warning=deprecation_warning,
            selectable_fields=tuple(selectable_fields),
            labels=dict(labels or {}),
            annotations={**(annotations or {}), **(dashboard.annotations() if dashboard else {})},
            conversion=conversion,
            hub=hub,
            skip=skip,
            external=external,
            where=where,
        )
        cls.gvk = info.gvk
        setattr(cls, _INFO, info)
        return cls

    return declare


_INFO: Final = "__kubewright_resource__"
_DECLARED: Final = "__kubewright_declared__"


def resource_info(cls: type) -> ResourceInfo:
    """Return the declaration of a class; raise `TypeError` if it has no `@resource`."""
    info = vars(cls).get(_INFO)
    if not isinstance(info, ResourceInfo):
        raise TypeError(f"{cls.__qualname__} is not a declared kind; add @resource(group=..., version=...)")
    return info


def is_resource(cls: object) -> bool:
    """Return whether a class itself, not a base, has `@resource`."""
    return isinstance(cls, type) and _INFO in vars(cls)


def has_status(cls: type) -> bool:
    """Return whether a kind has a status subresource; `CustomResource[MySpec, None]` has none."""
    declared = resource_info(cls).status
    if declared is not None:
        return declared
    return any(each.name == "status" and each.type is not NoneType for each in msgspec.structs.fields(cls))


def _declares_spec_and_status(cls: type) -> bool:
    """Return whether a custom resource declares spec and status, as type arguments or as fields."""
    given = any(get_origin(base) is CustomResource for base in vars(cls).get("__orig_bases__", ()))
    return given or "spec" in own_annotations(cls)


_IRREGULAR: Final = {
    "child": "children",
    "index": "indices",
    "matrix": "matrices",
    "person": "people",
    "sis": "ses",
    "vertex": "vertices",
    "fish": "fish",
    "metadata": "metadata",
    "series": "series",
    "species": "species",
}


def pluralize(noun: str) -> str:
    """Return the English plural of a lower-case noun; `plural=` of `@resource` overrides it."""
    for singular, plural in _IRREGULAR.items():
        if noun.endswith(singular):
            return noun.removesuffix(singular) + plural
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2:-1] not in ("", *"aeiou"):
        return noun[:-1] + "ies"
    return noun + "s"


@explain_keywords
@dataclass(frozen=True)
class Rbac:
    """Permissions that the program requires.

    Without `namespace` they become part of a ClusterRole, otherwise of a Role in that namespace. `core` is
    accepted as the name of the core group. `urls` are non-resource URLs. With `service_account`, as in
    `system/manager`, the manifests contain a RoleBinding of the Role to it.
    """

    _: KW_ONLY
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    namespace: str = ""
    role: str = ""
    service_account: str = ""
    where: str = field(default_factory=_caller, compare=False, repr=False)


@explain_keywords
@dataclass(frozen=True)
class MatchCondition:
    """A CEL expression that must be true for a webhook to be called."""

    name: str
    expression: str


@explain_keywords
@dataclass(frozen=True)
class Webhook:
    """An admission webhook.

    `Webhook(Guestbook, mutating=True)` derives groups, versions, resources, name and path from a declared
    kind; otherwise they must be given. With `url` the API server calls that address instead of a service.
    """

    of: type[Object] | None = None
    _: KW_ONLY
    mutating: bool = False
    verbs: tuple[str, ...] = ("create", "update")
    groups: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: Literal["Namespaced", "Cluster", "*"] | None = None
    name: str = ""
    path: str = ""
    url: str = ""
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    match_policy: Literal["Exact", "Equivalent"] | None = None
    side_effects: Literal["None", "NoneOnDryRun"] = "None"
    timeout_seconds: int | None = None
    reinvocation_policy: Literal["Never", "IfNeeded"] | None = None
    admission_review_versions: tuple[str, ...] = ("v1",)
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    match_conditions: tuple[MatchCondition, ...] = ()
    service_name: str = "webhook-service"
    service_namespace: str = "system"
    service_port: int | None = None
    ca_bundle: str | None = None
    where: str = field(default_factory=_caller, compare=False, repr=False)


@explain_keywords
@dataclass(frozen=True)
class WebhookConfiguration:
    """Name and metadata of the configuration with all mutating or all validating webhooks."""

    mutating: bool
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    where: str = field(default_factory=_caller, compare=False, repr=False)


@dataclass(frozen=True)
class Skip:
    """Exclude a module and its submodules from manifests: `SKIP = Skip(__name__)`."""

    module: str


Declaration = Rbac | Webhook | WebhookConfiguration


@runtime_checkable
class DeclarationProvider(Protocol):
    """An object that provides declarations, such as an operator."""

    def declarations(self) -> Iterable[Declaration]:
        """Return the declarations of this object."""


def declares(*declarations: Declaration) -> Callable[[AnyT], AnyT]:
    """Attach declarations to a function or class."""
    for declaration in declarations:
        if not isinstance(declaration, Declaration):
            raise TypeError(f"declares() accepts Rbac, Webhook and WebhookConfiguration, not {declaration!r}")

    def attach(target: AnyT) -> AnyT:
        setattr(target, _DECLARED, (*declarations_on(target), *declarations))
        return target

    return attach


def declarations_on(target: Any) -> tuple[Declaration, ...]:
    """Return the declarations that `@declares` attached to a function or class."""
    declared: tuple[Declaration, ...] = getattr(target, "__dict__", {}).get(_DECLARED, ())
    return declared


def webhook_path(gvk: GroupVersionKind, *, mutating: bool) -> str:
    """Return the path of the webhook of a kind: `/mutate-webapp-my-domain-v1-guestbook`."""
    verb = "mutate" if mutating else "validate"
    group = gvk.group.replace(".", "-")
    return f"/{verb}-{group}-{gvk.version}-{gvk.kind.lower()}"
