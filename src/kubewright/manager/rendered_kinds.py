"""Kinds whose objects expand to other objects by templates: the controller behind `Operator.render`.

For each object the templates are rendered and the result is applied as an object set (`ObjectSets`): changes
of its objects by other clients are reverted, objects that are no longer rendered are deleted. If templates
cannot be rendered, nothing is applied, and the objects of the last successful rendering stay.

The status gets `observedGeneration` and these conditions, as far as its class has the fields:

| condition | true if |
|---|---|
| `Ready` | all objects are ready, by the rules of `kubewright.client.readiness` |
| `Progressing` | an object is not ready yet |
| `Degraded` | an object has failed, or the objects cannot be rendered or applied |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from kubewright.api import codec
from kubewright.api.conditions import get_condition, set_condition
from kubewright.api.declarations import Rbac, pluralize
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition
from kubewright.api.objects import base_of
from kubewright.api.scheme import Scheme, SchemeError, UnknownKindError
from kubewright.client.patches import to_dict
from kubewright.controller.object_sets import MemberReadiness, ObjectSets
from kubewright.controller.request import Result

from .context import Context
from .template_folder import RenderError, TemplateFolder

DELETION_RETRY_SECONDS: Final = 10.0
"""Interval in which the deletion of members is checked, in addition to their watch."""
MAX_MESSAGE: Final = 1024
_VERBS: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_RBAC_GROUP: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class _State:
    """Reason and message of the condition Ready, and the values of all conditions."""

    reason: str
    message: str
    is_ready: bool = False
    is_progressing: bool = False
    is_degraded: bool = False


class RenderedKind:
    """The reconciler and the finalizer of a kind with templates."""

    def __init__(self, folder: TemplateFolder, *, kinds: Sequence[GroupVersionKind] = ()) -> None:
        """`kinds`: kinds of objects that are not found in the text of the templates."""
        self.folder = folder
        self._kinds = tuple(kinds)

    async def reconcile(self, ctx: Context[Any]) -> None:
        """Render the templates, apply the objects, and report their state."""
        obj, sets = ctx.object, cast(ObjectSets, ctx.desired)
        generation = obj.metadata.generation
        raw = base_of(obj)
        try:
            manifests = await self.folder.render(codec.loads(raw) if raw is not None else to_dict(obj))
        except RenderError as error:
            state = _State("RenderFailed", str(error), is_degraded=True)
            if _is_new(ctx, state):
                ctx.event("Warning", state.reason, state.message)
                ctx.log.warning("cannot render templates", extra={"error": str(error)})
            await _report(ctx, state, generation)
            return
        try:
            result = await ctx.ensure(manifests)
        except Exception as error:
            await _report(ctx, _State("ApplyFailed", str(error), is_degraded=True), generation)
            raise
        if result.applied:
            ctx.event("Normal", "Applied", _shortened(f"applied {', '.join(result.applied)}"))
        if result.deleted:
            ctx.event("Normal", "Pruned", _shortened(f"deleted {', '.join(result.deleted)}"))
        await _report(ctx, _state_of(await sets.readiness(obj)), generation)

    async def finalize(self, ctx: Context[Any]) -> Result | None:
        """Delete all objects of the set before the object itself."""
        remaining = await cast(ObjectSets, ctx.desired).delete(ctx.object)
        if not remaining:
            return None
        message = f"waiting for the deletion of {', '.join(remaining)}"
        await _report(ctx, _State("Deleting", message, is_progressing=True), ctx.object.metadata.generation)
        return Result(requeue_after=DELETION_RETRY_SECONDS)

    def _samples(self) -> list[dict[str, Any]]:
        try:
            return [] if self.folder.is_chart else self.folder.render_sample()
        except RenderError:
            return []  # values without defaults are required

    def rules(self, scheme: Scheme) -> Iterable[tuple[Rbac, bool]]:
        """Return the permissions that the templates require, and whether each is for a namespaced kind.

        An operator can only create roles whose permissions it has itself.
        """
        samples = self._samples()
        rendered = [GroupVersionKind.from_api_version(each["apiVersion"], each["kind"]) for each in samples]
        for gvk in dict.fromkeys((*self.folder.kinds(), *rendered, *self._kinds)):
            try:
                info = scheme.info_of(gvk)
                plural, namespaced = info.plural, info.namespaced
            except (UnknownKindError, SchemeError):
                plural, namespaced = pluralize(gvk.kind.lower()), True
            yield _rule((gvk.group,), (plural,), _VERBS), namespaced
        for each in samples:
            if each["apiVersion"].partition("/")[0] == _RBAC_GROUP:
                yield from ((rule, "Cluster" not in each["kind"]) for rule in _granted(each, samples))


def _rule(groups: Iterable[str], resources: Iterable[str], verbs: Iterable[str], **more: Any) -> Rbac:
    named = tuple(each or "core" for each in groups)
    return Rbac(groups=named, resources=tuple(resources), verbs=tuple(verbs), where="", **more)


def _granted(manifest: dict[str, Any], samples: list[dict[str, Any]]) -> Iterable[Rbac]:
    """Return the permissions that a rendered role or binding grants, which the operator must have as well."""
    for rule in manifest.get("rules") or ():
        names = tuple(rule.get("resourceNames") or ())
        verbs = rule.get("verbs") or ()
        if rule.get("nonResourceURLs"):
            yield Rbac(urls=tuple(rule["nonResourceURLs"]), verbs=tuple(verbs), where="")
        elif names and "create" in verbs:  # a Role can have it, without effect
            yield _rule(rule.get("apiGroups") or (), rule.get("resources") or (), verbs)
        else:
            yield _rule(rule.get("apiGroups") or (), rule.get("resources") or (), verbs, resource_names=names)
    reference = manifest.get("roleRef") or {}
    own = {(each["kind"], each["metadata"]["name"]) for each in samples}
    if reference and (reference.get("kind"), reference.get("name")) not in own:
        plural = f"{str(reference.get('kind')).lower()}s"
        yield _rule((_RBAC_GROUP,), (plural,), ("bind",), resource_names=(str(reference.get("name")),))


def _state_of(members: list[MemberReadiness]) -> _State:
    failed = [each for each in members if each.readiness.is_failed]
    waiting = [each for each in members if not each.readiness.is_ready and not each.readiness.is_failed]
    if not failed and not waiting:
        count = len(members)
        return _State("ObjectsReady", f"{count} object{'' if count == 1 else 's'} ready", is_ready=True)
    message = "; ".join(f"{each.name}: {each.readiness.message}" for each in (*failed, *waiting))
    reason = "ObjectFailed" if failed else "ObjectsNotReady"
    return _State(reason, message, is_progressing=bool(waiting), is_degraded=bool(failed))


def _is_new(ctx: Context[Any], state: _State) -> bool:
    """Return whether the object does not report this state yet."""
    status = getattr(ctx.object, "status", None)
    ready = get_condition(status, "Ready") if _has_field(status, "conditions") else None
    return ready is None or (ready.reason, ready.message) != (state.reason, _shortened(state.message))


async def _report(ctx: Context[Any], state: _State, generation: int | None) -> None:
    """Write conditions and the observed generation, as far as the status of the kind has these fields."""
    status: Any = getattr(ctx.object, "status", None)
    if _has_field(status, "observed_generation"):
        status.observed_generation = generation
    if _has_field(status, "conditions"):
        for type_, value in (
            ("Ready", state.is_ready),
            ("Progressing", state.is_progressing),
            ("Degraded", state.is_degraded),
        ):
            condition = Condition(
                type=type_,
                status="True" if value else "False",
                reason=state.reason,
                message=_shortened(state.message),
                observed_generation=generation,
            )
            set_condition(status, condition)
    if status is not None:
        await ctx.update_status()


def _has_field(status: Any, name: str) -> bool:
    return name in getattr(type(status), "__struct_fields__", ())


def _shortened(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 4]} ..."


__all__ = ["RenderedKind"]
