"""Kinds whose objects expand to other objects by templates: the controller behind `Operator.render`.

For each object the templates are rendered and the result is applied as an object set (`ObjectSets`): changes
of its objects by other clients are reverted, objects that are no longer rendered are deleted. If templates
cannot be rendered, nothing is applied, and the objects of the last successful rendering stay.

The status is that of `set_status`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kubewright.api.declaring.declarations import Rbac, pluralize
from kubewright.api.encoding import codec
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.objects import base_of
from kubewright.api.scheme import Scheme, SchemeError, UnknownKindError
from kubewright.client.patches import to_dict
from kubewright.controller.children.object_sets import MemberReadiness, ObjectSets
from kubewright.controller.request import Result
from kubewright.manager.contexts.context import Context

from .set_status import SetState, delete_members, is_new, record_changes, report
from .template_folder import RenderError, TemplateFolder

_VERBS: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_RBAC_GROUP: Final = "rbac.authorization.k8s.io"


class RenderedKind:
    """The reconciler and the finalizer of a kind with templates."""

    def __init__(self, folder: TemplateFolder, *, kinds: Sequence[GroupVersionKind] = ()) -> None:
        """`kinds`: kinds of objects that are not found in the text of the templates."""
        self.folder = folder
        self._kinds = tuple(kinds)

    async def reconcile(self, ctx: Context[Any]) -> None:
        """Render the templates, apply the objects, and report their state."""
        obj, sets = ctx.object, ctx.desired
        assert isinstance(sets, ObjectSets)
        generation = obj.metadata.generation
        raw = base_of(obj)
        try:
            manifests = await self.folder.render(codec.loads(raw) if raw is not None else to_dict(obj))
        except RenderError as error:
            state = SetState("RenderFailed", str(error), is_degraded=True)
            if is_new(ctx, state):
                ctx.event("Warning", state.reason, state.message)
                ctx.log.warning("cannot render templates", extra={"error": str(error)})
            await report(ctx, state, generation)
            return
        try:
            result = await ctx.ensure(manifests)
        except Exception as error:
            await report(ctx, SetState("ApplyFailed", str(error), is_degraded=True), generation)
            raise
        record_changes(ctx, result.applied, result.deleted)
        await report(ctx, _state_of(await sets.readiness(obj)), generation)

    async def finalize(self, ctx: Context[Any]) -> Result | None:
        """Delete all objects of the set before the object itself."""
        return await delete_members(ctx)

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
            yield rule_for_members(scheme, gvk)
        for each in samples:
            if each["apiVersion"].partition("/")[0] == _RBAC_GROUP:
                yield from ((rule, "Cluster" not in each["kind"]) for rule in _granted(each, samples))


def rule_for_members(
    scheme: Scheme, gvk: GroupVersionKind, verbs: Sequence[str] = _VERBS
) -> tuple[Rbac, bool]:
    """Return the permissions to apply and delete objects of a kind, and whether it is namespaced."""
    try:
        info = scheme.info_of(gvk)
        plural, namespaced = info.plural, info.namespaced
    except (UnknownKindError, SchemeError):
        plural, namespaced = pluralize(gvk.kind.lower()), True
    return _rule((gvk.group,), (plural,), verbs), namespaced


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


def _state_of(members: list[MemberReadiness]) -> SetState:
    failed = [each for each in members if each.readiness.is_failed]
    waiting = [each for each in members if not each.readiness.is_ready and not each.readiness.is_failed]
    if not failed and not waiting:
        return SetState.ready(len(members))
    message = "; ".join(f"{each.name}: {each.readiness.message}" for each in (*failed, *waiting))
    reason = "ObjectFailed" if failed else "ObjectsNotReady"
    return SetState(reason, message, is_progressing=bool(waiting), is_degraded=bool(failed))
