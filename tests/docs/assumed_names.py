"""Names that blocks of the documentation use without a definition: the project of the reader."""

from __future__ import annotations

from typing import Annotated

from kubewright import Client, Condition, Context, CustomResource, Manager, Operator, Spec, Status
from kubewright.api import ListMap, field, resource
from kubewright.api.core.v1 import PodTemplateSpec
from kubewright.cache import Cache
from kubewright.composition import Graph
from kubewright.controlplane import ControlPlane


class ShopSpec(Spec):
    """Desired state of a Shop."""

    city: str = ""
    opens_in: int = 0
    owner: str = ""
    size: int = 1
    region: str = ""
    settings: str = ""


class ShopStatus(Status):
    """Observed state of a Shop."""

    conditions: Annotated[list[Condition], ListMap("type")] = field(default_factory=list)
    address: str = ""
    not_after: str = ""


@resource(group="store.example.com", version="v1")
class Shop(CustomResource[ShopSpec, ShopStatus]):
    """A shop."""


@resource(group="store.example.com", version="v1", kind="ShopOne")
class ShopV1(CustomResource[ShopSpec, ShopStatus]):
    """A shop."""


@resource(group="store.example.com", version="v2", kind="ShopTwo")
class ShopV2(CustomResource[ShopSpec, ShopStatus]):
    """A shop."""


class SizeSpec(Spec):
    """Desired state with a size and a template."""

    size: int = 1
    image: str = ""
    html: str = ""
    region: str = ""
    template: PodTemplateSpec | None = None
    labels: dict[str, str] = field(default_factory=dict)


@resource(group="example.com", version="v1")
class Guestbook(CustomResource[SizeSpec, ShopStatus]):
    """A guestbook."""


@resource(group="example.com", version="v1")
class Database(CustomResource[SizeSpec, ShopStatus]):
    """A database."""


@resource(group="example.com", version="v1")
class Camera(CustomResource[SizeSpec, ShopStatus]):
    """A camera."""


@resource(group="example.com", version="v1")
class Region(CustomResource[SizeSpec, ShopStatus]):
    """A region."""


@resource(group="example.com", version="v1")
class Greeting(CustomResource[SizeSpec, ShopStatus]):
    """A greeting."""


@resource(group="example.com", version="v1")
class Widget(CustomResource[SizeSpec, ShopStatus]):
    """A widget."""


@resource(group="example.com", version="v1")
class WebApp(CustomResource[SizeSpec, ShopStatus]):
    """A web application."""


@resource(group="example.com", version="v1")
class Toy(CustomResource[SizeSpec, ShopStatus]):
    """A toy."""


@resource(group="cert-manager.io", version="v1", external=True)
class Certificate(CustomResource[SizeSpec, ShopStatus]):
    """A certificate."""


class SiteStatus(Status):
    """Observed state of a Site."""

    cluster: str = ""


@resource(group="example.com", version="v1")
class Site(CustomResource[SizeSpec, SiteStatus]):
    """A site."""


operator: Operator
client: Client
manager: Manager
cache: Cache
ctx: Context[Shop]
plane: ControlPlane
kubeconfig: str
graph: Graph
