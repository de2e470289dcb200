"""The status of validating admission policies: do their expressions fit the kinds that they are about?

A policy is compiled without knowing the kinds that it will see. Here its expressions are checked once more,
against the schema of every kind that its rules name; what does not fit becomes a warning in
`status.typeChecking`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kubewright import cel
from kubewright.api.errors import NotFound
from kubewright.controlplane.admission.expressions import environment, programs
from kubewright.schema.validation.cel_types import cel_type

from .changes import Changes, ObjectChange
from .loop import Loop
from .requests import Requests, controller_user

if TYPE_CHECKING:
    from kubewright.apiserver.resource import Version
    from kubewright.apiserver.server import APIServer

Object = dict[str, Any]

GROUP = "admissionregistration.k8s.io"
PATH = f"/apis/{GROUP}/v1/validatingadmissionpolicies"
MOST_KINDS = 10


class PolicyStatus:
    """Writes `observedGeneration` and `typeChecking` of policies."""

    def __init__(self, server: APIServer, changes: Changes) -> None:
        self.server = server
        self.requests = Requests(server, controller_user("validatingadmissionpolicy-status-controller"))
        self.loop: Loop[str] = Loop("policy status", self._reconcile)
        self.loops = (self.loop,)
        changes.follow(GROUP, "validatingadmissionpolicies", self._changed)

    def _changed(self, change: ObjectChange) -> None:
        if change.type != "DELETED":
            self.loop.add(change.name)

    async def _reconcile(self, name: str) -> None:
        try:
            policy = await self.requests.get(f"{PATH}/{name}")
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
            await self.requests.update(f"{PATH}/{name}/status", policy)
        except NotFound:
            return

    def warnings(self, spec: Object) -> list[Object]:
        """What does not fit, by expression."""
        kinds = list(self._kinds(spec))
        found: list[Object] = []
        for position, validation in enumerate(spec.get("validations") or ()):
            for field in ("expression", "messageExpression"):
                text = validation.get(field)
                complaints = [self._complaint(spec, text, *kind) for kind in kinds] if text else []
                shown = [each for each in complaints if each]
                if shown:
                    where = f"spec.validations[{position}].{field}"
                    found.append({"fieldRef": where, "warning": "\n".join(shown)})
        return found

    def _kinds(self, spec: Object) -> Iterator[tuple[str, cel.Type]]:
        """The kinds that the rules name, with their types."""
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
        for group, name, kind in sorted(named)[:MOST_KINDS]:
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

    def _complaint(self, spec: Object, text: str, kind: str, type_: cel.Type) -> str:
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
    """The type of a whole object; `None` where the schema does not say or has no end."""
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
