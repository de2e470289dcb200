"""Type checking of validating admission policies.

Admission compiles a policy without the types of the objects it will see. This controller checks its
expressions against the schema of every kind that its rules name and reports errors as warnings in
`status.typeChecking`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kubewright import cel
from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupResource
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.admission.policies.expressions import environment, programs
from kubewright.controlplane.in_process_clients import controller_client
from kubewright.schema.validation.cel_types import cel_type

from . import Component, new_controller
from .source import resource_source

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Version
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controlplane.informers import Informers


GROUP = "admissionregistration.k8s.io"
POLICIES = GroupResource(GROUP, "validatingadmissionpolicies")
NAME = "validatingadmissionpolicy-status-controller"
MAX_KINDS = 10
"""Kinds that a policy is checked against, as in kube-controller-manager."""


class PolicyStatusController(Component):
    """Writes `observedGeneration` and `typeChecking` of policies."""

    def __init__(self, server: APIServer, informers: Informers) -> None:
        self.server = server
        self.client = controller_client(server, NAME)
        controller = new_controller(NAME, self._reconcile)
        controller.watch(resource_source(informers, POLICIES, self._policy_changed, needs="metadata"))
        self.controllers = (controller,)

    def _policy_changed(self, change: ObjectChange) -> Iterable[str]:
        if change.type != "DELETED":
            yield change.name

    async def _reconcile(self, name: str) -> None:
        try:
            policy = (await self.client.get(POLICIES, name)).raw
        except NotFound:
            return
        generation = policy["metadata"].get("generation")
        status = policy.get("status") or {}
        if status.get("observedGeneration") == generation:
            return
        checking: Object = {}
        warnings = self.warnings(policy["spec"])
        if warnings:
            checking["expressionWarnings"] = warnings
        policy["status"] = {**status, "observedGeneration": generation, "typeChecking": checking}
        try:
            await self.client.update_status(policy)
        except NotFound:
            return

    def warnings(self, spec: Object) -> list[Object]:
        """Return the type errors, by expression."""
        kinds = list(self._kinds(spec))
        found: list[Object] = []
        for position, validation in enumerate(spec.get("validations") or ()):
            for field in ("expression", "messageExpression"):
                text = validation.get(field)
                errors = [self._type_error(spec, text, *kind) for kind in kinds] if text else []
                shown = [each for each in errors if each]
                if shown:
                    where = f"spec.validations[{position}].{field}"
                    found.append({"fieldRef": where, "warning": "\n".join(shown)})
        return found

    def _kinds(self, spec: Object) -> Iterator[tuple[str, cel.Type]]:
        """Yield the kinds that the rules name, with their types."""
        named: dict[tuple[str, str, str], Version] = {}
        for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
            for store in self.server.stores:
                resource = store.resource
                if resource.group not in rule.get("apiGroups", ()) or resource.plural not in rule.get(
                    "resources", ()
                ):
                    continue
                for version in resource.versions:
                    if version.served and version.name in rule.get("apiVersions", ()):
                        named[resource.group, version.name, resource.kind] = version
        for group, name, kind in sorted(named)[:MAX_KINDS]:
            type_ = object_type(named[group, name, kind])
            if type_ is not None:
                yield f"{group}/{name}, Kind={kind}", type_

    def _params_type(self, spec: Object) -> cel.Type:
        kind = spec.get("paramKind")
        if kind:
            group, _, name = kind["apiVersion"].rpartition("/")
            for store in self.server.stores:
                version = store.resource.version(name)
                if store.resource.group == group and store.resource.kind == kind["kind"] and version:
                    return object_type(version) or cel.DYN
        return cel.DYN

    def _type_error(self, spec: Object, text: str, kind: str, type_: cel.Type) -> str:
        def env(variables: dict[str, cel.Type]) -> cel.Env:
            return environment(
                params=bool(spec.get("paramKind")),
                variables=variables,
                object_type=type_,
                params_type=self._params_type(spec),
            )

        types, _, _ = programs(env, spec.get("variables") or ())
        try:
            env(types).check(text)
        except cel.CelCompileError as error:
            return f"{kind}: compilation failed: {error}\n"
        return ""


def object_type(version: Version) -> cel.Type | None:
    """Return the type of a whole object; `None` if there is no schema or it is recursive."""
    node = version.schema
    if node is None:
        return None
    fields: dict[str, cel.Type] = {"apiVersion": cel.STRING, "kind": cel.STRING, "metadata": cel.DYN}
    try:
        for name, child in node.properties.items():
            fields[name] = cel_type(child) or cel.DYN
    except RecursionError:
        return None
    metadata = node.properties.get("metadata")
    if metadata is None or not metadata.properties:
        fields["metadata"] = cel.DYN
    return cel.object_type("object", fields)
