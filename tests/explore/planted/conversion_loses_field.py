"""A conversion to the stored version forgets a field: it is lost with the first write."""

from __future__ import annotations

from kubewright import Context, Converter, CustomResource, ObjectMeta, Operator, Spec, Status, resource
from kubewright.api.declaring.declarations import WebhookConversion
from kubewright.explore import ClusterState, Steps, at_end, scenario

from .kinds import GROUP, NAMESPACE, Planted


class SiteSpecV1(Spec):
    """Desired state, old form."""

    size: int = 1
    note: str = ""


class SiteStatus(Status):
    """Observed state."""

    replicas: int | None = None


@resource(group=GROUP, version="v1", kind="Site")
class SiteV1(CustomResource[SiteSpecV1, SiteStatus]):
    """A site, old form."""


class SiteSpec(Spec):
    """Desired state."""

    replicas: int = 1
    note: str = ""


@resource(group=GROUP, version="v2", storage=True, hub=True, conversion=WebhookConversion())
class Site(CustomResource[SiteSpec, SiteStatus]):
    """A site."""


def build(fixed: bool) -> Operator:
    operator = Operator("planted")
    converter = Converter(Site)

    def to_hub(old: SiteV1) -> Site:
        note = old.spec.note if fixed else ""
        return Site(
            metadata=old.metadata, spec=SiteSpec(replicas=old.spec.size, note=note), status=old.status
        )

    def from_hub(new: Site) -> SiteV1:
        spec = SiteSpecV1(size=new.spec.replicas, note=new.spec.note)
        return SiteV1(metadata=new.metadata, spec=spec, status=new.status)

    converter.spoke(SiteV1, to_hub=to_hub, from_hub=from_hub)
    operator.convert(converter)

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        site.status.replicas = site.spec.replicas
        await ctx.update_status()

    return operator


@at_end
def the_note_is_kept(state: ClusterState) -> str | None:
    notes = [each.get("spec", "note") for each in state.of_kind("Site")]
    return f"the notes are {notes}" if notes != ["call first"] else None


@scenario(invariants=[the_note_is_kept])
async def steps(steps: Steps) -> None:
    metadata = ObjectMeta(name="home", namespace=NAMESPACE)
    await steps.apply(SiteV1(metadata=metadata, spec=SiteSpecV1(size=2, note="call first")))
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, families=(), finding="the notes are")
