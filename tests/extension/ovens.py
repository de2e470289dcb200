"""An app that uses every kind of declaration: ovens with two versions, an internal hub and plates."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from kubewright import APIServerApp, Converter, CustomResource, Denied, FieldError, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import NotFound
from kubewright.apiserver import (
    APIServer,
    AuthorizationAttributes,
    HTTPResponse,
    SubresourceRequest,
    User,
    WebSocket,
)
from kubewright.extension import ObjectReader

GROUP = "kitchen.example.com"


class OvenSpec(Spec):
    celsius: int = 0
    plates: list[str] = []


class OvenStatus(Status):
    hot: bool = False


@resource(group=GROUP, version="v2", served=False, hub=True)
class Oven(CustomResource[OvenSpec, OvenStatus]):
    """The internal version, which is not served."""


class OvenSpecV1(Spec):
    temperature: str = ""
    plates: list[str] = []


@resource(group=GROUP, version="v1", kind="Oven", storage=True, selectable_fields=(".spec.temperature",))
class OvenV1(CustomResource[OvenSpecV1, OvenStatus]):
    """The first version: a temperature with a unit."""


class OvenSpecV1Alpha1(Spec):
    fahrenheit: int = 32
    plates: list[str] = []


@resource(group=GROUP, version="v1alpha1", kind="Oven")
class OvenV1Alpha1(CustomResource[OvenSpecV1Alpha1, OvenStatus]):
    """An older version."""


@resource(group=GROUP, version="v1", scope="Cluster")
class Plate(CustomResource[Spec, None]):
    """A plate, without its own fields."""


converter = Converter(hub=Oven)
converter.spoke(
    OvenV1,
    to_hub=lambda oven: Oven(
        metadata=oven.metadata,
        spec=OvenSpec(celsius=int(oven.spec.temperature.removesuffix("C") or 0), plates=oven.spec.plates),
        status=oven.status,
    ),
    from_hub=lambda oven: OvenV1(
        metadata=oven.metadata,
        spec=OvenSpecV1(temperature=f"{oven.spec.celsius}C", plates=oven.spec.plates),
        status=oven.status,
    ),
)
converter.spoke(
    OvenV1Alpha1,
    to_hub=lambda oven: Oven(
        metadata=oven.metadata,
        spec=OvenSpec(celsius=round((oven.spec.fahrenheit - 32) / 1.8), plates=oven.spec.plates),
        status=oven.status,
    ),
    from_hub=lambda oven: OvenV1Alpha1(
        metadata=oven.metadata,
        spec=OvenSpecV1Alpha1(fahrenheit=round(oven.spec.celsius * 1.8 + 32), plates=oven.spec.plates),
        status=oven.status,
    ),
)


def kitchen() -> APIServerApp:
    """Return a new app."""
    app = APIServerApp("kitchen")
    app.add(Plate)
    app.add(Oven, OvenV1, OvenV1Alpha1, storage=OvenV1)
    app.convert(converter)

    @app.default(Oven)
    def set_defaults(oven: Oven) -> None:
        oven.spec.celsius = oven.spec.celsius or 180

    @app.validate(Oven)
    def validate(new: Oven, old: Oven | None) -> Iterable[FieldError]:
        if new.spec.celsius > 500:
            yield FieldError.invalid("spec.celsius", new.spec.celsius, "must be at most 500")
        if old is not None and new.spec.celsius < old.spec.celsius - 100:
            yield FieldError.invalid("spec.celsius", new.spec.celsius, "an oven cools down slowly")

    @app.admit(Oven, mutates=True)
    def set_owner(oven: Oven, user: User) -> None:
        oven.metadata.labels = {**(oven.metadata.labels or {}), "owner": user.name}

    @app.admit(Oven, reads=(Plate, ConfigMap))
    async def check_plates(oven: Oven, objects: ObjectReader) -> None:
        for name in oven.spec.plates:
            if not await objects.exists(Plate, name):
                raise Denied(f"unknown plate: {name}")
        try:
            hours = await objects.get(ConfigMap, "hours", namespace=oven.metadata.namespace)
        except NotFound:
            return
        if (hours.data or {}).get("closed") == "true":
            raise Denied("the kitchen is closed")

    @app.admit(Oven, on=("delete",))
    def keep_hot_ovens(oven: Oven) -> None:
        if oven.status is not None and oven.status.hot:
            raise Denied("the oven is hot")

    @app.subresource(Oven, "temperature")
    def temperature(oven: Oven, user: User) -> dict[str, object]:
        return {"kind": "Temperature", "celsius": oven.spec.celsius, "user": user.name}

    @app.subresource(Oven, "log", streams=True)
    async def log(oven: Oven) -> AsyncIterator[str]:
        async def lines() -> AsyncIterator[str]:
            for number in range(3):
                yield f"{oven.metadata.name} {number}\n"

        return lines()

    @app.subresource(Oven, "intercom", streams=True)
    async def intercom(oven: Oven, request: SubresourceRequest) -> HTTPResponse:
        async def talk(socket: WebSocket) -> None:
            while (message := await socket.receive()) is not None:
                await socket.send(f"{oven.metadata.name}: {message!s}")

        return HTTPResponse(websocket=talk)

    @app.authorize
    def authorize(attributes: AuthorizationAttributes) -> bool | str | None:
        if attributes.user.name == "cook":
            return True
        return "guests stay outside" if attributes.user.name == "guest" else None

    @app.configure
    def add_check(server: APIServer) -> None:
        server.health.add("gas", lambda: None)

    return app
