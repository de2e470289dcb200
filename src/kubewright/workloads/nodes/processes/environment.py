"""The variables and the command of a container."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kubewright.workloads.nodes.containers.runtime import ContainerStartError
from kubewright.workloads.nodes.objects import Object

from .cluster_reader import ClusterReader, DataKind, MissingReference
from .volumes.downward_api import UnsupportedField, resource_value

if TYPE_CHECKING:
    from .volumes.volumes import PodContext

CONFIG_RETRY_SECONDS = 2.0
"""From CreateContainerConfigError to the next attempt."""
ADDRESS_ANNOTATION = "processes.kubewright.dev/address"
"""Annotation of Services with the address, as host:port, that processes of this machine use instead of the
cluster IP and its first port."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by values; unknown names are left unchanged, and `$$` is a dollar sign."""
    found: list[str] = []
    position = 0
    while position < len(text):
        mark = text.find("$", position)
        if mark < 0 or mark + 1 >= len(text):
            break
        found.append(text[position:mark])
        next_sign = text[mark + 1]
        end = text.find(")", mark)
        if next_sign == "$":
            found.append("$")
            position = mark + 2
        elif next_sign == "(" and end > 0:
            name = text[mark + 2 : end]
            found.append(values.get(name, f"$({name})"))
            position = end + 1
        else:
            found.append("$" + next_sign)
            position = mark + 2
    found.append(text[position:])
    return "".join(found)


def service_variables(services: Iterable[Object]) -> dict[str, str]:
    """Return the variables of services with a cluster IP, as kubelets and Docker links name them."""
    variables: dict[str, str] = {}
    for service in services:
        spec = service.get("spec") or {}
        address, ports = spec.get("clusterIP") or "None", spec.get("ports") or []
        if address == "None" or not ports:
            continue
        prefix = _variable_name(service["metadata"]["name"])
        given = (service["metadata"].get("annotations") or {}).get(ADDRESS_ANNOTATION, "")
        host, colon, number = given.rpartition(":")
        if colon and number.isdecimal():
            address, ports = host.strip("[]"), [{**ports[0], "port": int(number)}]
        variables[f"{prefix}_SERVICE_HOST"] = address
        variables[f"{prefix}_SERVICE_PORT"] = str(ports[0]["port"])
        for position, port in enumerate(ports):
            number = port["port"]
            if port.get("name"):
                variables[f"{prefix}_SERVICE_PORT_{_variable_name(port['name'])}"] = str(number)
            protocol = str(port.get("protocol") or "TCP")
            url = f"{protocol.lower()}://{f'[{address}]' if ':' in address else address}:{number}"
            if position == 0:
                variables[f"{prefix}_PORT"] = url
            link = f"{prefix}_PORT_{number}_{protocol.upper()}"
            variables[link] = url
            variables[f"{link}_PROTO"] = protocol.lower()
            variables[f"{link}_PORT"] = str(number)
            variables[f"{link}_ADDR"] = address
    return variables


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()


class ContainerEnvironment:
    """Computes the variables of containers as a kubelet does."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader

    async def variables(self, context: PodContext, container: Object) -> dict[str, str]:
        """Return the variables of a container; raise `ContainerStartError` for missing references."""
        try:
            return await self._variables(context, container)
        except (MissingReference, UnsupportedField) as error:
            raise ContainerStartError(
                str(error), reason="CreateContainerConfigError", retry_after=CONFIG_RETRY_SECONDS
            ) from None

    async def _variables(self, context: PodContext, container: Object) -> dict[str, str]:
        services = await self._services(context)
        values: dict[str, str] = {}
        for source in container.get("envFrom") or ():
            values.update(await self._all_keys(context, source))
        for variable in container.get("env") or ():
            value: str | None = variable.get("value") or ""
            if value:
                value = expand(value, {**services, **values})
            elif variable.get("valueFrom"):
                value = await self._value_from(context, container, variable["valueFrom"])
            if value is not None:
                values[variable["name"]] = value
        return {**services, **values}

    async def _services(self, context: PodContext) -> dict[str, str]:
        spec = context.pod.get("spec") or {}
        services = [
            each
            for each in await self._reader.services("default")
            if each["metadata"]["name"] == "kubernetes"
        ]
        if spec.get("enableServiceLinks", True):
            services += await self._reader.services(context.namespace)
        variables = service_variables(services)
        address = await self._reader.api_server()
        if address is not None:
            # The cluster IP of the API server is not reachable from processes of this machine.
            variables["KUBERNETES_SERVICE_HOST"], variables["KUBERNETES_SERVICE_PORT"] = address
            variables["KUBERNETES_SERVICE_PORT_HTTPS"] = address[1]
        return variables

    async def _all_keys(self, context: PodContext, source: Object) -> dict[str, str]:
        prefix = source.get("prefix") or ""
        found: dict[str, str] = {}
        references: tuple[tuple[DataKind, str], ...] = (
            ("configmap", "configMapRef"),
            ("secret", "secretRef"),
        )
        for kind, field in references:
            reference = source.get(field)
            if reference is None:
                continue
            try:
                data = await self._reader.data(kind, context.namespace, reference["name"])
            except MissingReference:
                if reference.get("optional"):
                    continue
                raise
            found.update({prefix + key: value.decode(errors="replace") for key, value in data.items()})
        return found

    async def _value_from(self, context: PodContext, container: Object, source: Object) -> str | None:
        """Return the value of a source; `None` leaves the variable unset."""
        if reference := source.get("fieldRef"):
            return context.field(reference["fieldPath"])
        if reference := source.get("resourceFieldRef"):
            named = context.find_container(reference.get("containerName") or "") or container
            return resource_value(named, reference, context.allocatable)
        if reference := source.get("configMapKeyRef"):
            return await self._key(context, "configmap", "ConfigMap", reference)
        if reference := source.get("secretKeyRef"):
            return await self._key(context, "secret", "Secret", reference)
        return ""

    async def _key(self, context: PodContext, kind: DataKind, title: str, reference: Object) -> str | None:
        name, key, optional = reference.get("name") or "", reference["key"], reference.get("optional")
        try:
            data = await self._reader.data(kind, context.namespace, name)
        except MissingReference:
            if optional:
                return None
            raise
        if key not in data:
            if optional:
                return None
            raise MissingReference(f"couldn't find key {key} in {title} {context.namespace}/{name}")
        return data[key].decode(errors="replace")


def container_command(
    container: Object, variables: Mapping[str, str], images: Mapping[str, list[str]]
) -> list[str]:
    """Return command and arguments of a container; raise `ContainerStartError` without a command.

    `images` has the commands of images, by name with or without a tag.
    """
    command = [expand(each, variables) for each in container.get("command") or ()]
    arguments = [expand(each, variables) for each in container.get("args") or ()]
    if command:
        return command + arguments
    image = container.get("image") or ""
    known = images.get(image) or images.get(_without_tag(image))
    if known:
        return list(known) + arguments
    raise ContainerStartError(
        f'container "{container["name"]}" has no command, and the entrypoint of image "{image}" is not known '
        "because images are not pulled; set the command of the container, or add the image to the images of "
        "the nodes file"
    )


def _without_tag(image: str) -> str:
    name = image.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name
