"""`APIServerApp`: declares an extension API server with decorated functions.

    app = APIServerApp("restaurant")
    app.add(Topping)
    app.add(Pizza, PizzaV1Alpha1)

    @app.default(Pizza)
    def set_defaults(pizza: Pizza) -> None: ...

    @app.validate(Pizza)
    def validate(pizza: Pizza) -> Iterable[FieldError]: ...

    @app.admit(Pizza, reads=(Topping,))
    async def check_toppings(pizza: Pizza, objects: ObjectReader) -> None: ...

    @app.subresource(Pizza, "bill")
    async def bill(pizza: Pizza) -> dict[str, object]: ...

It is a thin layer on `kubewright.apiserver`: `build` returns resources with strategies, converters and
subresources, and `runtime` serves them behind a cluster. Functions may be plain or async; they run on the
event loop. Their first parameters are objects of the kind, further ones are filled by type.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

from kubewright.api.declaring.declarations import Declaration, Rbac, resource_info
from kubewright.api.gvk import GroupKind, GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.callables import is_async
from kubewright.manager.operators.injection import InjectionError, check_arguments, describe
from kubewright.manager.operators.registration import as_sequence, check_kind, import_submodules

from .audit import AuditFunction
from .authorization import AuthorizeFunction
from .functions import (
    ADMISSION_VALUES,
    EXEC_VALUES,
    PORT_VALUES,
    SUBRESOURCE_VALUES,
    VALIDATION_VALUES,
    Admission,
    DeclaredFunction,
    Validation,
)
from .serving import rbac
from .serving.settings import APIServerSettings
from .subresources import (
    DeclaredSubresource,
    ExecSubresource,
    FunctionSubresource,
    PortSubresource,
    ProxySubresource,
)

if TYPE_CHECKING:
    from kubewright.apiserver import APIServer, Resource, Strategy
    from kubewright.apiserver.resources.typed import ResourceSettings
    from kubewright.client import Client
    from kubewright.manifests.project import OperatorDeployment
    from kubewright.webhook.conversion import Converter

    from .metric_apis import CustomMetrics, ExternalMetrics, MetricAPI
    from .rest.rest import Rest

F = TypeVar("F", bound=Callable[..., object])

_WRITES = ("create", "update")
_OPERATIONS = (*_WRITES, "delete")


@dataclass(slots=True)
class DeclaredResource:
    """The versions of a kind, and the functions for them."""

    added: tuple[type[MetaObject], ...]
    hub: type[MetaObject] | None
    storage: type[MetaObject] | None
    strategy: Strategy | None
    options: ResourceSettings
    rest: Rest[Any] | None = None
    defaults: dict[str, list[tuple[type[MetaObject], Callable[[Any], object]]]] = field(default_factory=dict)
    validations: list[Validation] = field(default_factory=list)
    subresources: list[DeclaredSubresource] = field(default_factory=list)
    converter: Converter | None = None

    @property
    def kinds(self) -> tuple[type[MetaObject], ...]:
        """The classes of all versions: those that were added, and those of the converter."""
        spokes = self.converter.types if self.converter is not None else ()
        return (*self.added, *(each for each in spokes if each not in self.added))

    @property
    def group_kind(self) -> GroupKind:
        """Group and kind."""
        return resource_info(self.added[0]).gvk.group_kind


class APIServerApp:
    """The resources, functions and settings of one extension API server."""

    def __init__(self, name: str, *, storage: str = "memory:") -> None:
        self.name = name
        self.settings = APIServerSettings(storage=storage)
        self.resources: dict[GroupKind, DeclaredResource] = {}
        self.admissions: list[Admission] = []
        self.authorizer: AuthorizeFunction | None = None
        self.metric_apis: list[MetricAPI] = []
        self.audit_functions: list[AuditFunction] = []
        self.configurations: list[Callable[[APIServer], object]] = []
        self._reads: dict[type[MetaObject], None] = {}
        self._permissions: list[Rbac] = []
        self._converters: dict[GroupKind, Converter] = {}
        """Converters of kinds that are not added yet."""

    def import_modules(self, package: str) -> None:
        """Import a package with its submodules, so that their resources and functions are declared.

        A module that is being imported already, such as the one that calls this, is not imported again.
        """
        import_submodules(package)

    # Resources

    def add(
        self,
        *kinds: type[MetaObject],
        hub: type[MetaObject] | None = None,
        storage: type[MetaObject] | None = None,
        strategy: Strategy | None = None,
        rest: Rest[Any] | None = None,
        **options: Unpack[ResourceSettings],
    ) -> None:
        """Serve a kind; several classes are its versions.

        Columns, selectable fields, short names and the subresources `status` and `scale` come from
        `@resource`. Versions are converted through the hub (`hub=True` in `@resource`), which hooks and
        validation see; it need not be served. `storage` is the stored version, by default the hub.
        `strategy` has further hooks, such as those for graceful deletion; `options` are fields of `Resource`.
        With `rest`, the objects come from another system.
        """
        if not kinds:
            raise TypeError("add() needs a class with @resource")
        for kind in kinds:
            check_kind(kind)
        declared = DeclaredResource(kinds, hub or _hub_of(kinds), storage, strategy, options, rest)
        if declared.group_kind in self.resources:
            raise ValueError(
                f"{declared.group_kind} was already added; pass all of its versions to one add()"
            )
        self.resources[declared.group_kind] = declared
        if declared.group_kind in self._converters:
            self.convert(self._converters.pop(declared.group_kind))

    def add_custom_metrics(self, source: CustomMetrics) -> None:
        """Serve custom.metrics.k8s.io: metrics of objects of the cluster, for autoscaling."""
        from .metric_apis import CustomMetricsAPI

        self._add_metrics(CustomMetricsAPI(source))

    def add_external_metrics(self, source: ExternalMetrics) -> None:
        """Serve external.metrics.k8s.io: metrics of other systems, for autoscaling."""
        from .metric_apis import ExternalMetricsAPI

        self._add_metrics(ExternalMetricsAPI(source))

    def _add_metrics(self, api: MetricAPI) -> None:
        if any(each.group == api.group for each in self.metric_apis):
            raise ValueError(f"{api.group} was already added")
        self.metric_apis.append(api)

    def convert(self, converter: Converter) -> Converter:
        """Convert between the versions of a kind with a `Converter`, instead of methods of the classes.

        All versions of the converter are served, also those that `add` does not name.
        """
        check_kind(converter.hub)
        group_kind = resource_info(converter.hub).gvk.group_kind
        declared = self.resources.get(group_kind)
        if declared is None:
            self._converters[group_kind] = converter  # the module with add() is imported later
        else:
            declared.converter, declared.hub = converter, converter.hub
        return converter

    def _declared(self, kind: type[MetaObject]) -> DeclaredResource:
        check_kind(kind)
        found = self.resources.get(resource_info(kind).gvk.group_kind)
        if found is None or kind not in found.kinds:
            raise ValueError(f"{kind.__name__} is not served; add it before: app.add({kind.__name__})")
        return found

    # Functions

    def default(self, kind: type[MetaObject]) -> Callable[[F], F]:
        """Set defaults that the class does not declare: `function(obj)` changes the object.

        A function for the hub is also called for objects of other versions, after their conversion. It is a
        plain function, because defaults are applied wherever an object is decoded.
        """
        declared = self._declared(kind)

        def register(function: F) -> F:
            check_arguments(function, 1, "a defaulting function takes the object")
            if is_async(function):
                raise InjectionError(f"{describe(function)}: a defaulting function must not be async")
            declared.defaults.setdefault(resource_info(kind).gvk.version, []).append((kind, function))
            return function

        return register

    def validate(self, kind: type[MetaObject], *, on: Sequence[str] = _WRITES) -> Callable[[F], F]:
        """Reject invalid objects: `function(new)` or `function(new, old)` returns or yields `FieldError`s.

        With several versions, `kind` is the hub. `old` is `None` on create. Further parameters can be an
        `ObjectReader`, the `User`, the `Operation`, a `Client` of the cluster or a `logging.Logger`.
        """
        declared = self._declared(kind)
        operations = _operations(on, _WRITES)
        if declared.hub not in (None, kind):
            assert declared.hub is not None
            raise ValueError(
                f"objects are validated in the hub version; use @app.validate({declared.hub.__name__})"
            )

        def register(function: F) -> F:
            checked = DeclaredFunction(kind, function, VALIDATION_VALUES, role="validating function", most=2)
            declared.validations.append(Validation(checked, operations))
            return function

        return register

    def admit(
        self,
        kind: type[MetaObject],
        *,
        on: Sequence[str] = _WRITES,
        mutates: bool = False,
        reads: Sequence[type[MetaObject]] = (),
    ) -> Callable[[F], F]:
        """Reject or change writes by other objects and by the user (admission plug-in).

        `function(new, old)` raises `Denied` or an `APIError`, or returns `FieldError`s. Objects are in the
        version of `kind`, whichever version was requested. On delete, `new` is `None`; a function with one
        parameter receives the deleted object. With `mutates`, the function changes the object, before
        validation; otherwise it sees the final object. `reads` are kinds that an `ObjectReader` parameter
        reads: their informers have synced when the server becomes ready.
        """
        self._declared(kind)
        operations = frozenset(each.upper() for each in _operations(on, _WRITES if mutates else _OPERATIONS))
        self._add_reads(reads)

        def register(function: F) -> F:
            checked = DeclaredFunction(kind, function, ADMISSION_VALUES, role="admission function", most=2)
            self.admissions.append(Admission(checked, operations, mutates))
            return function

        return register

    def subresource(
        self,
        kind: type[MetaObject],
        name: str,
        *,
        verbs: Sequence[str] = ("get",),
        streams: bool = False,
        returns: GroupVersionKind | None = None,
        content_type: str = "text/plain; charset=utf-8",
        reads: Sequence[type[MetaObject]] = (),
        requires: str = "",
    ) -> Callable[[F], F]:
        """Serve a subresource of existing objects: `function(obj)` returns the response.

        The response is a dict or a struct (JSON), text, an async iterator of text or bytes, or an
        `HTTPResponse` (WebSocket, tunnel). `verbs`: `get` serves GET, `create` POST, `update` PUT; a
        `SubresourceRequest` parameter has body, query and headers. With `streams`, admission sees CONNECT and
        the request has no timeout. `returns` is the kind of the bodies, for discovery. `requires` is a custom
        verb that users need on the object, besides the verb of the method on the subresource.
        """
        allowed = as_sequence("verbs", verbs)
        if unknown := sorted(set(allowed) - {"get", "create", "update", "patch", "delete"}):
            raise ValueError(f"unknown verbs {unknown}; use get, create, update, patch or delete")

        def build(function: DeclaredFunction) -> DeclaredSubresource:
            return FunctionSubresource(
                name, function, requires, tuple(allowed), streams, returns, content_type
            )

        return self._subresource(kind, SUBRESOURCE_VALUES, build, reads)

    def exec(
        self,
        kind: type[MetaObject],
        name: str = "exec",
        *,
        reads: Sequence[type[MetaObject]] = (),
        requires: str = "",
    ) -> Callable[[F], F]:
        """Serve a subresource with the streams of `kubectl exec`, over WebSocket and SPDY.

        `function(obj, session)` reads and writes an `ExecSession` and returns the exit code; an exception is
        reported to the client. It is cancelled when the client disconnects.
        """
        return self._subresource(
            kind, EXEC_VALUES, lambda function: ExecSubresource(name, function, requires), reads
        )

    def port_forward(
        self,
        kind: type[MetaObject],
        name: str = "portforward",
        *,
        reads: Sequence[type[MetaObject]] = (),
        requires: str = "",
    ) -> Callable[[F], F]:
        """Serve a subresource with the streams of `kubectl port-forward`, over WebSocket and SPDY.

        `function(obj, port, connection)` is called for each connection, with an `int` and a `ByteStream`.
        """
        return self._subresource(
            kind, PORT_VALUES, lambda function: PortSubresource(name, function, requires), reads
        )

    def proxy(
        self,
        kind: type[MetaObject],
        name: str = "proxy",
        *,
        reads: Sequence[type[MetaObject]] = (),
        requires: str = "",
    ) -> Callable[[F], F]:
        """Forward the requests of a subresource, and of all paths below it, to another server.

        `function(obj)` returns the base URL or a `ProxyTarget`; or an `HTTPResponse`, which is sent instead.
        """
        return self._subresource(
            kind, SUBRESOURCE_VALUES, lambda function: ProxySubresource(name, function, requires), reads
        )

    def _subresource(
        self,
        kind: type[MetaObject],
        values: Mapping[type, str],
        build: Callable[[DeclaredFunction], DeclaredSubresource],
        reads: Sequence[type[MetaObject]],
    ) -> Callable[[F], F]:
        declared = self._declared(kind)
        self._add_reads(reads)

        def register(function: F) -> F:
            checked = DeclaredFunction(kind, function, values, role="subresource function", most=1)
            declared.subresources.append(build(checked))
            return function

        return register

    def authorize(self, function: F) -> F:
        """Authorize requests with a function of the `AuthorizationAttributes`, before the cluster does.

        It returns true to allow the request, false or a reason to deny it, and `None` to leave the decision
        to the cluster. Requests that the cluster forwards have passed its own authorization already.
        """
        check_arguments(function, 1, "an authorizing function takes the AuthorizationAttributes")
        self.authorizer = cast(AuthorizeFunction, function)
        return function

    def audit(self, function: F) -> F:
        """Call a function with the `AuditEvent` of each stage of a request, according to the audit policy."""
        check_arguments(function, 1, "an audit function takes the AuditEvent")
        self.audit_functions.append(function)
        return function

    def configure(self, function: F) -> F:
        """Call a function with the `APIServer` before it starts, to add paths, health checks or metrics."""
        check_arguments(function, 1, "a configuring function takes the APIServer")
        self.configurations.append(function)
        return function

    def add_permissions(self, *rules: Rbac) -> None:
        """Add rules to the generated role of the server: what functions need besides `reads`."""
        self._permissions += rules

    def _add_reads(self, kinds: Sequence[type[MetaObject]]) -> None:
        for kind in as_sequence("reads", kinds):
            check_kind(kind)
            self._reads[kind] = None

    # Declarations for the server and for manifests

    def build(self, values: Mapping[str, Any]) -> list[Resource]:
        """Return the resources for an `APIServer`; `values` are the arguments of functions by name."""
        from .serving.resources import build_resource

        for converter in self._converters.values():
            name = converter.hub.__name__
            raise ValueError(f"{name} has a converter and is not served; add it: app.add({name})")
        return [build_resource(each, values) for each in self.resources.values()]

    @property
    def is_empty(self) -> bool:
        """Whether the app serves no resources."""
        return not self.resources and not self.metric_apis

    @property
    def reads(self) -> list[type[MetaObject]]:
        """Kinds that functions read, declared by `reads`."""
        return list(self._reads)

    @property
    def kinds(self) -> list[type[MetaObject]]:
        """The classes of all served kinds and versions."""
        return [kind for declared in self.resources.values() for kind in declared.kinds]

    @property
    def stores_objects(self) -> bool:
        """Whether objects are stored by this server, and not by the system of a `Rest`."""
        return any(declared.rest is None for declared in self.resources.values())

    @property
    def has_backends(self) -> bool:
        """Whether the objects of a kind are in another system (`Rest`)."""
        return any(declared.rest is not None for declared in self.resources.values())

    @property
    def storage(self) -> str:
        """URL of the storage."""
        return self.settings.storage

    @property
    def group_priority(self) -> int:
        """`groupPriorityMinimum` of the APIServices."""
        return self.settings.group_priority

    def group_versions(self) -> list[tuple[str, str]]:
        """Return the served groups and versions."""
        infos = (resource_info(kind) for kind in self.kinds)
        served = {(info.gvk.group, info.gvk.version) for info in infos if info.served}
        served |= {(api.group, version) for api in self.metric_apis for version in api.versions}
        return sorted(served)

    def api_service_names(self) -> list[str]:
        """Return the names of the APIServices."""
        return [f"{version}.{group}" for group, version in self.group_versions()]

    @property
    def service(self) -> str:
        """Name of the Service of the server."""
        return self.settings.service or self.name

    @property
    def secret(self) -> str:
        """Name of the Secret with managed certificates."""
        return self.settings.secret or f"{self.service}-certificates"

    def server_declarations(self, deployment: OperatorDeployment | None = None) -> Iterable[Declaration]:
        """Return the RBAC rules of the server, beside those to delegate authentication."""
        settings = self.settings
        managed = not settings.certificates if deployment is None else deployment.managed_certificates
        needed = rbac.rules(
            reads=[kind for kind in self._reads if _group_kind(kind) not in self.resources],
            api_services=self.api_service_names(),
            secret=self.secret,
            cluster_admission=settings.cluster_admission,
            priority=settings.priority,
            managed_certificates=managed,
            registers=settings.register,
        )
        return [*needed, *self._permissions]

    # Running

    async def run(self, client: Client | None = None, *, stop: asyncio.Event | None = None) -> None:
        """Serve until `stop` is set or SIGINT or SIGTERM is received.

        Without a client it connects to the cluster as kubectl does.
        """
        from .serving.runtime import run_app

        await run_app(self, client, stop)


def _hub_of(kinds: Sequence[type[MetaObject]]) -> type[MetaObject] | None:
    return next((kind for kind in kinds if resource_info(kind).hub), None)


def _group_kind(kind: type[MetaObject]) -> GroupKind:
    assert kind.gvk is not None
    return kind.gvk.group_kind


def _operations(on: Sequence[str], allowed: Sequence[str]) -> frozenset[str]:
    given = as_sequence("on", on)
    unknown = [each for each in given if each not in allowed]
    if unknown or not given:
        raise ValueError(f"on={given!r}: expected operations of {', '.join(allowed)}")
    return frozenset(given)
