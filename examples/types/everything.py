"""One kind that uses every marker and every argument of a declaration."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from kubewright.api import (
    AsIntOrString,
    AtLeastOneOf,
    AtMostOneOf,
    Atomic,
    Cel,
    Column,
    CustomResource,
    Default,
    Description,
    Duration,
    EmbeddedResource,
    Enum,
    ExactlyOneOf,
    Example,
    ExternalDocs,
    Format,
    Ge,
    Gt,
    Immutable,
    Int32,
    Int64,
    LabelSelector,
    LabelSelectorRequirement,
    Le,
    ListMap,
    ListSet,
    LocalDefault,
    Lt,
    MapType,
    MatchCondition,
    MaxDescription,
    MaxItems,
    MaxLen,
    MaxProperties,
    MicroTime,
    MinItems,
    MinLen,
    MinProperties,
    MultipleOf,
    Nullable,
    ObjectMeta,
    Pattern,
    PreserveUnknownFields,
    Quantity,
    Rbac,
    Required,
    Scale,
    Schemaless,
    Spec,
    Status,
    Struct,
    StructType,
    Time,
    Title,
    TypeOverride,
    Webhook,
    WebhookConfiguration,
    WebhookConversion,
    field,
    mark,
    resource,
)


class Colour(StrEnum):
    """A colour."""

    RED = "red"
    GREEN = "green"


@mark(
    StructType("granular"),
    MinProperties(1),
    MaxProperties(4),
    Title("A part"),
    Example({"name": "a"}),
    ExternalDocs("https://example.com/parts", "All about parts"),
)
class Part(Struct):
    """A part with a name."""

    name: Annotated[str, MinLen(1), MaxLen(63), Pattern("^[a-z]+$")]
    size: Annotated[Int32, Ge(0), Le(100)] = 1
    extra: Annotated[str, Description("Set by a marker.")] | None = None


@mark(ExactlyOneOf("left", "right"), AtMostOneOf("near", "far"), AtLeastOneOf("near", "left"))
class Choice(Struct):
    """Directions."""

    left: str | None = None
    right: str | None = None
    near: bool | None = None
    far: bool | None = None


@mark(PreserveUnknownFields)
class Open(Struct):
    """Unknown fields are preserved."""

    known: str | None = None


@mark(
    Cel(
        "self.count <= self.limit",
        message_expression="self.limit > 5 ? 'count is above the limit' : 'count is above the low limit'",
        reason="FieldValueInvalid",
        field_path=".count",
    ),
    Cel("oldSelf.hasValue() || self.count == 0", message="starts at zero", optional_old_self=True),
)
class EverythingSpec(Spec):
    """Every marker once."""

    count: Annotated[Int64, Gt(-1), Lt(1000), MultipleOf(1)] = 0
    limit: Annotated[int, Ge(0)] = 10
    colour: Colour = Colour.RED
    shape: Literal["round", "square"] | None = None
    flavour: Annotated[str, Enum("sweet", "sour"), Title("Flavour"), Example("sweet")] | None = None
    address: Annotated[str, Format("ipv4")] | None = None
    token: UUID | None = None
    key: bytes | None = None
    identity: Annotated[str, Immutable]
    parent: Annotated[str, Immutable] | None = None
    maybe: Annotated[str | None, Nullable] = None
    parts: Annotated[list[Part], ListMap("name"), MinItems(0), MaxItems(10)] | None = None
    tags: Annotated[list[Annotated[str, MaxLen(20)]], ListSet, MaxItems(5)] | None = None
    steps: Annotated[list[str], Atomic] = field(default_factory=lambda: ["one", "two"])
    settings: Annotated[dict[str, str], MapType("atomic"), MaxProperties(8)] | None = None
    choice: Choice | None = None
    open: Open | None = None
    first: Part = field(default_factory=lambda: Part(name="first"))
    target: (
        Annotated[dict[str, Any], Schemaless, TypeOverride("object"), EmbeddedResource, PreserveUnknownFields]
        | None
    ) = None
    port: int | str = 8080
    percent: Annotated[str, AsIntOrString] | None = None
    memory: Quantity = Quantity("64Mi")
    timeout: Duration = Duration("30s")
    since: Time | None = None
    renewed: MicroTime | None = None
    template: ObjectMeta | None = None
    """Metadata of the created objects."""
    served_default: Annotated[str, Default("server")] | None = None
    local_default: Annotated[str, LocalDefault] = "program"
    always: Annotated[str, Required] = ""
    long: Annotated[str, MaxDescription(20)] | None = None
    """Short. And then a second sentence that is cut."""
    docs: Annotated[str, ExternalDocs("https://example.com/docs")] | None = None
    #: Described by a comment above.
    above: str | None = None
    beside: str | None = None  #: Described by a comment beside it.


class EverythingStatus(Status):
    """Observed state."""

    replicas: Int32 | None = None
    selector: str | None = None


@resource(
    group="every.example.com",
    version="v1",
    kind="Everything",
    plural="everythings",
    singular="everything",
    scope="Namespaced",
    short_names=("ev", "evy"),
    categories=("all", "example"),
    columns=(
        Column("Count", ".spec.count", "integer", format="int64", description="How many.", priority=0),
        Column("Colour", ".spec.colour", "string", priority=1),
        Column("Part", ".spec.parts[0].name"),
    ),
    status=True,
    scale=Scale(".spec.count", ".status.replicas", ".status.selector"),
    storage=True,
    served=True,
    deprecation_warning="for reading, not for use",
    selectable_fields=(".spec.colour",),
    labels={"example": "yes"},
    annotations={"example.com/owner": "platform-team"},
    conversion=WebhookConversion(url="https://example.com/convert", review_versions=("v1",)),
    hub=True,
)
@mark(Cel("self.metadata.name.size() <= 52", message="the name is too long"))
class Everything(CustomResource[EverythingSpec, EverythingStatus]):
    """Uses everything."""


@resource(
    group="every.example.com",
    version="v1alpha1",
    kind="Everything",
    plural="everythings",
    short_names=("ev", "evy"),
    categories=("all", "example"),
    served=False,
)
class EverythingOld(CustomResource[Open, None]):
    """The previous version, which is not served."""


@resource(group="every.example.com", version="v2", kind="Everything", skip=True)
class EverythingNext(CustomResource[Open, None]):
    """A version that is excluded from manifests."""


PERMISSIONS = [
    Rbac(groups=("every.example.com",), resources=("everythings",), verbs=("get", "list", "watch")),
    Rbac(groups=("every.example.com",), resources=("everythings",), verbs=("*",)),
    Rbac(groups=("apps", "core"), resources=("deployments", "pods"), verbs=("get",)),
    Rbac(groups=("core",), resources=("configmaps",), resource_names=("settings",), verbs=("get",)),
    Rbac(groups=("core",), resources=("secrets",), verbs=("get",), namespace="vault", role="secret-reader"),
    Rbac(urls=("/metrics", "/healthz"), verbs=("get",)),
]
WEBHOOKS = [
    Webhook(
        Everything,
        mutating=True,
        verbs=("create", "update", "delete"),
        scope="Namespaced",
        failure_policy="Ignore",
        match_policy="Exact",
        side_effects="NoneOnDryRun",
        timeout_seconds=5,
        reinvocation_policy="IfNeeded",
        admission_review_versions=("v1",),
        namespace_selector=LabelSelector(match_labels={"checked": "yes"}),
        object_selector=LabelSelector(
            match_expressions=[LabelSelectorRequirement(key="tier", operator="In", values=["front", "back"])]
        ),
        match_conditions=(MatchCondition("not-ours", "request.userInfo.username != 'system:us'"),),
        service_name="hooks",
        service_namespace="hooks-system",
        service_port=8443,
        ca_bundle="Q0E=",
    ),
    Webhook(
        groups=("core",),
        versions=("v1",),
        resources=("pods",),
        verbs=("create",),
        name="pods.every.example.com",
        url="https://example.com/pods",
    ),
]
CONFIGURATIONS = [
    WebhookConfiguration(mutating=True, name="everything-mutating", labels={"app": "everything"})
]
