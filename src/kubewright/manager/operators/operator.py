"""`Operator`: declares an operator with decorated functions.

    operator = Operator("guestbook")

    @operator.reconcile(Guestbook, owns=(Deployment,))
    async def reconcile(guestbook: Guestbook, ctx: Context) -> Result | None: ...

    @operator.default(Guestbook)
    def set_defaults(guestbook: Guestbook) -> None: ...

It is a thin layer on `Manager`, `ControllerBuilder` and `WebhookServer`: each decorator stores a declaration,
and `operator_runtime` builds the manager from them. Decorators of functions for objects are in
`object_functions`. Functions receive their arguments by type (`injection`)
and may be plain or async. RBAC rules and webhook configurations follow from the declarations (`rbac`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from kubewright.api.declaring.declarations import (
    Declaration,
    Webhook,
    is_resource,
    resource_info,
    webhook_path,
)
from kubewright.api.gvk import GroupKind
from kubewright.api.meta import MetaObject
from kubewright.api.scheme import Scheme
from kubewright.cache.informers.resync import RESYNC_SECONDS, check_resync
from kubewright.client import Client
from kubewright.manager.events import EventRecorder
from kubewright.manager.manager import Manager
from kubewright.manager.observability.probes import Probes
from kubewright.runnable import Runnable

from . import rbac
from .declared_functions import PROCESS_VALUES, AdmissionFunction
from .injection import InjectedFunction, InjectionError, check_arguments, describe, source_location
from .object_functions import ObjectFunctions
from .registration import (
    WebhookOptions,
    as_sequence,
    check_keywords,
    check_kind,
    import_submodules,
    suggest_keywords,
)
from .services import Factory, Services, ServiceT
from .settings import Settings

if TYPE_CHECKING:
    from kubewright.manager.fleets.cluster_providers import ClusterProvider
    from kubewright.manager.fleets.fleet import Fleet
    from kubewright.manifests.project import OperatorDeployment
    from kubewright.schema.generation.errors import Problem
    from kubewright.webhook.conversion import Converter

F = TypeVar("F", bound=Callable[..., object])


class Operator(ObjectFunctions):
    """The controllers, webhooks and settings of one program."""

    @suggest_keywords
    def __init__(
        self,
        name: str,
        *,
        namespaces: Sequence[str] | None = None,
        resync: float = RESYNC_SECONDS,
        scheme: Scheme | None = None,
        former_field_managers: Sequence[str] = (),
    ) -> None:
        """`namespaces`: watch only these. `resync`: seconds within which every object is reconciled again,
        changed or not; 0: never. `former_field_managers`: names under which this operator applied objects
        before it was renamed.

        Functions apply objects as `<operator>`, or as `<operator>/<name>` if they have a name. `ensure` takes
        over and deletes what was applied under a former name as well.
        """
        super().__init__(
            name,
            settings=Settings(namespaces=namespaces, resync=check_resync(resync)),
            scheme=scheme if scheme is not None else Scheme(),
            services=Services(),
        )
        self.former_field_managers = as_sequence("former_field_managers", former_field_managers)
        self.probes = Probes()
        """Health and readiness checks; add your own."""
        self.defaults: dict[type[MetaObject], AdmissionFunction] = {}
        self.validators: dict[type[MetaObject], AdmissionFunction] = {}
        self.converters: list[Converter] = []
        self.startup: list[InjectedFunction] = []
        self.cleanup: list[InjectedFunction] = []
        self.fleets: list[Fleet] = []

    def import_modules(self, package: str) -> None:
        """Import a package with its submodules, so that their decorated functions are registered.

        A module that is being imported already, such as the one that calls this, is not imported again.
        """
        import_submodules(package)

    # Services

    def provide(self, cls: type[ServiceT], factory: Factory[ServiceT] | None = None) -> None:
        """Provide an object of this class to functions that are declared later, by annotation.

        The factory (by default the class) is called once per process before the startup functions. It may be
        plain or async, return the object or a context manager of it, or yield it once; its parameters are
        filled by type, also with services that were provided earlier. At shutdown, after the cleanup
        functions, context managers are exited and other objects are closed (`aclose` or `close`), in reverse
        order.
        """
        self.services.declare(cls, factory if factory is not None else cls, self._known(PROCESS_VALUES))

    def override(self, cls: type[ServiceT], value: ServiceT) -> AbstractContextManager[None]:
        """Replace a provided object within a `with` block, for tests; its factory is not called."""
        return self.services.override(cls, value)

    # Clusters

    @suggest_keywords
    def fleet(
        self, provider: ClusterProvider, *, local: bool = False, namespaces: Sequence[str] | None = None
    ) -> Fleet:
        """Return a `Fleet`, whose functions run in every cluster that the provider reports.

        `local`: also in the cluster of this operator, with an empty `request.cluster`. `namespaces`: the
        namespaces to watch in the clusters of the provider; `None` means all.
        """
        from kubewright.manager.fleets.fleet import Fleet

        fleet = Fleet(self, provider, local=local, namespaces=namespaces)
        self.fleets.append(fleet)
        self.related.append(fleet)
        return fleet

    # Webhooks

    def default(self, kind: type[MetaObject], **options: Unpack[WebhookOptions]) -> Callable[[F], F]:
        """Set defaults of objects of `kind` before they are stored (mutating webhook).

        The function takes the object and, as an optional second parameter, the `AdmissionRequest`.
        """
        check_keywords("@operator.default", options, WebhookOptions.__annotations__)
        return self._admission(kind, self.defaults, mutating=True, options=dict(options))

    def validate(
        self,
        kind: type[MetaObject],
        *,
        on: Sequence[str] = ("create", "update"),
        **options: Unpack[WebhookOptions],
    ) -> Callable[[F], F]:
        """Reject invalid objects of `kind` (validating webhook).

        The function takes the new and the old object and, as an optional third parameter, the
        `AdmissionRequest`; it returns or yields `FieldError`s.
        """
        check_keywords("@operator.validate", options, ("on", *WebhookOptions.__annotations__))
        every = {"verbs": as_sequence("on", on), **options}
        return self._admission(kind, self.validators, mutating=False, options=every)

    def _admission(
        self,
        kind: type[MetaObject],
        functions: dict[type[MetaObject], AdmissionFunction],
        *,
        mutating: bool,
        options: dict[str, Any],
    ) -> Callable[[F], F]:
        check_kind(kind)
        assert kind.gvk is not None
        gvk = kind.gvk
        if is_resource(kind):
            options = {"of": kind, **options}
        else:
            info = self.scheme.info_of(kind)
            letter = "m" if mutating else "v"
            options = {
                "groups": (gvk.group or "core",),
                "versions": (gvk.version,),
                "resources": (info.plural,),
                "name": f"{letter}{gvk.kind.lower()}-{gvk.version}.{self.name}.kubewright.dev",
                "path": webhook_path(gvk, mutating=mutating),
                **options,
            }

        def register(function: F) -> F:
            role = "defaulting" if mutating else "validating"
            if kind in functions:
                raise InjectionError(f"{describe(function)}: {kind.__name__} already has a {role} function")
            accepted = self.services.inject(function)
            if mutating:
                check_arguments(
                    accepted, 1, "a defaulting function takes the object and optionally the AdmissionRequest"
                )
            else:
                check_arguments(
                    accepted,
                    2,
                    "a validating function takes the new and the old object and optionally the "
                    "AdmissionRequest",
                )
            webhook = Webhook(mutating=mutating, where=source_location(function), **options)
            functions[kind] = AdmissionFunction(kind, accepted, webhook)
            return function

        return register

    def convert(self, converter: Converter) -> Converter:
        """Convert between the versions of a kind (conversion webhook)."""
        self.converters.append(converter)
        return converter

    # The process

    def on_startup(self, function: F) -> F:
        """Call the function on every replica before controllers start. Its client reads from the server."""
        self.startup.append(InjectedFunction(function, self._known(PROCESS_VALUES), role="startup function"))
        return function

    def on_cleanup(self, function: F) -> F:
        """Call the function after controllers have stopped and before leadership is released."""
        self.cleanup.append(InjectedFunction(function, self._known(PROCESS_VALUES), role="cleanup function"))
        return function

    # Declarations for manifests

    def declarations(self) -> Iterable[Declaration]:
        """Return the RBAC rules and webhooks that the operator requires."""
        yield from rbac.rules_of(self)
        yield from self.webhooks()

    def deployed_declarations(self, deployment: OperatorDeployment) -> Iterable[Declaration]:
        """Return the RBAC rules and webhooks that the operator requires when it is deployed in this way."""
        settings = self.settings
        namespaces = settings.namespaces or ((deployment.namespace,) if deployment.namespaced else None)
        deployed = replace(
            settings,
            namespaces=namespaces,
            service_account=f"{deployment.namespace}/{deployment.service_account}",
            leader_election=not settings.shards and (settings.leader_election or deployment.leader_election),
            leader_election_namespace=deployment.namespace,
            metrics_port=None,
            webhooks=deployment.webhooks,
            webhook_certificates="" if deployment.managed_certificates else "mounted",
        )
        yield from rbac.rules_of(self, deployed)
        if deployment.webhooks:
            yield from self.webhooks()

    @property
    def watched_namespaces(self) -> Sequence[str]:
        """Namespaces that the program restricts the operator to; empty: all."""
        return self.settings.namespaces or ()

    @property
    def is_empty(self) -> bool:
        """Whether the operator declares no functions."""
        return not (
            *self.reconcilers,
            *self.finalizers,
            *self.timers,
            *self.daemons,
            *self.webhooks(),
            *self.converters,
            *self.startup,
            *self.cleanup,
            *self.fleets,
        )

    def webhooks(self) -> list[Webhook]:
        """Return the declared admission webhooks."""
        return [each.webhook for each in (*self.defaults.values(), *self.validators.values())]

    @property
    def kinds(self) -> list[type[MetaObject]]:
        """The custom resources whose CRDs must be installed: those that `kubewright manifests` writes.

        They are the kinds that the operator declares functions for, and all others of the modules that define
        these kinds and functions. Kinds with `external=True` are not part of them.
        """
        from .installed_kinds import installed_kinds

        return installed_kinds(self)

    def converted_kinds(self) -> Iterable[GroupKind]:
        """Return the kinds between whose versions the operator converts."""
        return [resource_info(converter.hub).gvk.group_kind for converter in self.converters]

    def conversion_problems(self) -> Iterable[tuple[Literal["error", "warning"], Problem]]:
        """Return problems of the converters: fields that a version cannot represent."""
        from kubewright.webhook.conversion_checks import conversion_problems

        return [problem for converter in self.converters for problem in conversion_problems(converter)]

    # Running

    def manager(self, client: Client) -> Manager:
        """Build the manager that runs this operator in the cluster of a client."""
        from .operator_runtime import build_runtime

        return build_runtime(self, client).manager

    async def run(
        self,
        client: Client | None = None,
        *,
        stop: asyncio.Event | None = None,
        runnables: Sequence[Callable[[Manager, EventRecorder], Runnable]] = (),
    ) -> None:
        """Run until `stop` is set or SIGINT or SIGTERM is received.

        Without a client it connects as kubectl does. `runnables` are factories of additional components.
        """
        from .operator_runtime import run

        own_client = client is None
        client = client if client is not None else Client.connect()
        try:
            await run(self, client, stop, runnables)
        finally:
            if own_client:
                await client.aclose()
