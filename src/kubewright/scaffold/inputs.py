"""What a user chooses: the inputs of a project and of the kinds in it, with checks of their names.

Both classes are stored in the scaffold lock, so that templates can be rendered again.
"""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from .errors import ScaffoldError

License = Literal["apache2", "mit", "none"]
Scope = Literal["Namespaced", "Cluster"]
Renderer = Literal["", "jinja", "helm"]

_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VERSION: Final = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_CLASSES: Final = frozenset(
    (
        *("Annotated", "Client", "Column", "Condition", "Context", "CustomResource", "Invalid", "ObjectMeta"),
        *(
            "APIServerApp",
            "Denied",
            "FieldError",
            "ObjectReader",
            "Operator",
            "RunningApp",
            "RunningOperator",
        ),
        *("Spec", "Status"),
    )
)
"""Names that the modules of all kinds import."""
_OPERAND_CLASSES: Final = frozenset(
    (
        *("Capabilities", "Container", "ContainerPort", "Deployment", "DeploymentSpec", "DeploymentStatus"),
        *("Event", "LabelSelector", "PodSecurityContext", "PodSpec", "PodTemplateSpec", "SeccompProfile"),
        *("SecurityContext", "Service", "ServicePort", "ServiceSpec"),
    )
)
"""Names that the modules of kinds with an operand image import in addition."""
_VARIABLES: Final = frozenset(
    (
        *(
            "available",
            "client",
            "condition",
            "container",
            "created",
            "ctx",
            "deployment",
            "events",
            "failed",
        ),
        *(
            "found",
            "is_true",
            "labels",
            "manager",
            "message",
            "name",
            "new",
            "old",
            "operator",
            "pod",
            "port",
        ),
        *("app", "example", "objects", "ready", "reason", "result", "running_app", "running_operator"),
        *("stalled",),
    )
)
"""Names of other variables and parameters in templates."""


@dataclass(frozen=True, kw_only=True)
class ProjectInputs:
    """Inputs of `kubewright init`."""

    name: str
    domain: str = "example.com"
    owner: str = ""
    license: License = "none"
    multigroup: bool = False
    namespaced: bool = False
    templates: tuple[str, ...] = ()
    """Names of template plug-ins, in order of precedence."""
    deployment: Mapping[str, Any] = field(default_factory=dict)
    """Keys of `[tool.kubewright.deployment]` that commands have set, such as `env.SHOP_IMAGE`."""
    kubectl_plugins: Mapping[str, str] = field(default_factory=dict)
    """Plug-ins of kubectl by name, each with its kind as `Shop.v1.store.example.com`."""
    credential_plugins: tuple[str, ...] = ()
    """Names of credential plug-ins."""
    year: int = field(default_factory=lambda: datetime.now(UTC).year)

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.name) or len(self.name) > 50:
            raise ScaffoldError(
                f"project name {self.name!r} is not a lower-case name of at most 50 letters, digits and "
                "dashes; choose another with --name"
            )
        if self.package in sys.stdlib_module_names or self.package in ("kubewright", "tests"):
            raise ScaffoldError(
                f"a package named {self.package} would hide another Python package; choose another name "
                "with --name"
            )
        if keyword.iskeyword(self.package):
            raise ScaffoldError(f"{self.package} is a Python keyword; choose another name with --name")
        if not _DOMAIN.fullmatch(self.domain):
            raise ScaffoldError(f"domain {self.domain!r} is not a lower-case domain such as example.com")

    @property
    def package(self) -> str:
        """Name of the Python package."""
        return self.name.replace("-", "_")


@dataclass(frozen=True, kw_only=True)
class ResourceInput:
    """Inputs of `kubewright create api` and `kubewright create webhook`: one version of a kind."""

    group: str = ""
    version: str
    kind: str
    domain: str = ""
    """Suffix of the group; set from the project."""
    plural: str = ""
    scope: Scope = "Namespaced"
    origin: str = ""
    """Module of the class of a core or external kind; empty for a kind of this project."""
    controller: bool = True
    image: str = ""
    """Operand image for the controller with a Deployment; empty for a plain controller."""
    command: tuple[str, ...] = ()
    port: int = 8080
    run_as_user: int = 1001
    renderer: Renderer = ""
    """What renders the templates of the kind; empty for a controller in Python."""
    sample: str = ""
    """Spec of the test object of a kind with templates, as JSON; empty for a spec without required fields."""
    served: bool = False
    """Whether an API server of the project serves the kind, instead of a CRD."""
    storage: bool = True
    """Whether this is the first version of its kind, which is the storage version and the hub."""
    controller_name: str = ""
    defaulting: bool = False
    validation: bool = False

    def __post_init__(self) -> None:
        if not _KIND.fullmatch(self.kind):
            raise ScaffoldError(
                f"kind {self.kind!r} is not a CamelCase name such as {_camel_case(self.kind)}"
            )
        if not _VERSION.fullmatch(self.version):
            raise ScaffoldError(f"version {self.version!r} is not a version such as v1, v1beta1 or v1alpha1")
        if self.group and not _DOMAIN.fullmatch(self.group):
            raise ScaffoldError(f"group {self.group!r} is not a lower-case name such as store")
        classes = _CLASSES | _OPERAND_CLASSES if self.image else _CLASSES
        if self.renderer:
            classes |= {"Path"}
        if not self.origin and self.kind in classes:
            raise ScaffoldError(
                f"the module of a kind {self.kind} would import another class of that name; "
                "choose another kind"
            )
        if self.image and (self.origin or self.scope == "Cluster"):
            raise ScaffoldError("an operand image needs a namespaced kind of this project")
        if self.plural and not _LABEL.fullmatch(self.plural):
            raise ScaffoldError(f"plural {self.plural!r} is not a lower-case name such as shops")

    @property
    def api_group(self) -> str:
        """Full name of the API group."""
        if self.origin or not self.domain:
            return self.group
        if not self.group or self.group == self.domain or self.group.endswith(f".{self.domain}"):
            return self.group or self.domain
        return f"{self.group}.{self.domain}"

    @property
    def group_package(self) -> str:
        """Name of the package of the group in a project with several groups."""
        name = re.sub(r"\W", "_", self.group.removesuffix(f".{self.domain}") or "core")
        return f"{name}_" if keyword.iskeyword(name) or name[0].isdigit() else name

    @property
    def stem(self) -> str:
        """Start of the names of the modules of this kind, such as `cron_job`."""
        return snake_case(self.kind)

    @property
    def article(self) -> str:
        """The indefinite article of the kind in a sentence."""
        return "an" if self.kind[0] in "AEIO" else "a"

    @property
    def variable(self) -> str:
        """Name of a Python variable for an object of this kind."""
        is_reserved = keyword.iskeyword(self.stem) or hasattr(builtins, self.stem) or self.stem in _VARIABLES
        return f"{self.stem}_" if is_reserved else self.stem

    @property
    def module(self) -> str:
        """Module with the class, without the package: `shop_v1`."""
        return f"{self.stem}_{self.version}"

    @property
    def is_own(self) -> bool:
        """Whether this project declares the kind."""
        return not self.origin

    @property
    def environment_variable(self) -> str:
        """Variable of the manager with the operand image."""
        return f"{self.stem.upper()}_IMAGE"

    def same_kind(self, other: ResourceInput) -> bool:
        """Return whether both are versions of one kind."""
        return (self.api_group, self.kind) == (other.api_group, other.kind)


def to_record(inputs: ProjectInputs | ResourceInput) -> dict[str, Any]:
    """Return inputs as JSON, without the fields that have their default."""
    record: dict[str, Any] = {}
    for each in fields(inputs):
        value = getattr(inputs, each.name)
        if value != each.default and value != {}:
            record[each.name] = list(value) if isinstance(value, tuple) else value
    return record


def from_record(cls: type[Any], record: dict[str, Any]) -> Any:
    """Return inputs from the JSON of `to_record`; fields of newer versions are ignored."""
    known = {each.name for each in fields(cls)}
    return cls(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in record.items()
            if name in known
        }
    )


def snake_case(name: str) -> str:
    """Return `HTTPRoute` as `http_route`."""
    words = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", words).lower()


def _camel_case(text: str) -> str:
    words = "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", text))
    return words if _KIND.fullmatch(words) else "Shop"


def project_name(directory: Path) -> str:
    """Return the name of a directory as a name of a project."""
    return re.sub(r"[^a-z0-9]+", "-", directory.absolute().name.lower()).strip("-")
