"""Rules of containers: names, images, ports, environment, probes and hooks."""

from __future__ import annotations

from typing import Any

from kubewright.api import names
from kubewright.api.field_errors import FieldError
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    choice,
    dns_label,
    dns_subdomain,
    no_backsteps,
    non_negative,
    port,
    port_number,
)
from kubewright.schema import field_errors as fe

from .resources import requirement_errors
from .security import container_security_errors
from .volumes import field_reference_errors, key_errors, mount_errors, resource_reference_errors

Object = dict[str, Any]

PROTOCOLS = ("SCTP", "TCP", "UDP")
_ENVIRONMENT_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_EPHEMERAL_FIELDS = frozenset(
    (
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "env",
        "envFrom",
        "volumeMounts",
        "volumeDevices",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "securityContext",
        "stdin",
        "stdinOnce",
        "tty",
        "targetContainerName",
    )
)
_ONLY_FOR_SIDECARS = "may not be set for init containers without restartPolicy=Always"


class Surroundings:
    """What rules of a container need to know about its pod."""

    __slots__ = ("claims", "grace", "host_users", "restart_policy", "volumes")

    def __init__(self, spec: Object, volumes: dict[str, Object]) -> None:
        self.volumes = volumes
        self.claims = {claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name")}
        self.grace: int | None = spec.get("terminationGracePeriodSeconds")
        self.restart_policy: str = spec.get("restartPolicy") or ""
        self.host_users = spec.get("hostUsers") is not False


def container_list_errors(spec: Object, around: Surroundings, path: str) -> Errors:
    """All three lists of containers of a pod."""
    containers = spec.get("containers") or []
    errors = _regular(containers, around, f"{path}.containers")
    errors += _initial(spec.get("initContainers") or [], containers, around, f"{path}.initContainers")
    return errors + _ephemeral(spec, around, f"{path}.ephemeralContainers")


def _regular(containers: list[Object], around: Surroundings, path: str) -> Errors:
    if not containers:
        return [fe.required(path, "")]
    errors: Errors = []
    seen: set[str] = set()
    for position, container in enumerate(containers):
        where = f"{path}[{position}]"
        errors += _common(container, around, where)
        if container.get("name", "") in seen:
            errors.append(fe.duplicate(f"{where}.name", container.get("name") or ""))
        seen.add(container.get("name") or "")
        errors += _watching(container, around, where)
        errors += _restart_errors(container, where)
    return errors + _host_port_errors(containers, path)


def _initial(containers: list[Object], regular: list[Object], around: Surroundings, path: str) -> Errors:
    errors: Errors = []
    seen = {one.get("name") or "" for one in regular}
    for position, container in enumerate(containers):
        where = f"{path}[{position}]"
        errors += _common(container, around, where)
        errors += _restart_errors(container, where)
        sidecar = container.get("restartPolicy") == "Always"
        name = container.get("name") or ""
        if name in seen:
            errors.append(fe.duplicate(f"{where}.name", name))
        elif name:
            seen.add(name)
        errors += _host_port_errors([container], path)
        if sidecar:
            errors += _watching(container, around, where)
        else:
            errors += [
                fe.forbidden(f"{where}.{field}", _ONLY_FOR_SIDECARS)
                for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
                if container.get(field) is not None
            ]
    return errors


def _ephemeral(spec: Object, around: Surroundings, path: str) -> Errors:
    errors: Errors = []
    others = {
        one.get("name") or "" for kind in ("containers", "initContainers") for one in spec.get(kind) or ()
    }
    seen = set(others)
    for position, container in enumerate(spec.get("ephemeralContainers") or ()):
        where, name = f"{path}[{position}]", container.get("name") or ""
        errors += _common(container, around, where)
        errors += image_space_errors(container, where)
        if name in seen:
            errors.append(fe.duplicate(f"{where}.name", name))
        seen.add(name)
        target = container.get("targetContainerName") or ""
        if target and target not in others:
            errors.append(FieldError.not_found(f"{where}.targetContainerName", target))
        for field, value in container.items():
            empty = value in (None, []) or (value == {} and field == "resources")
            if field not in _EPHEMERAL_FIELDS and not empty:
                errors.append(fe.forbidden(f"{where}.{field}", "cannot be set for an Ephemeral Container"))
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    at = f"{where}.volumeMounts[{index}].{field}"
                    errors.append(fe.forbidden(at, "cannot be set for an Ephemeral Container"))
    return errors


def image_space_errors(container: Object, path: str) -> Errors:
    """Blanks around an image, which pods (but not templates) refuse."""
    image = container.get("image") or ""
    if image.strip() == image:
        return []
    return [fe.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]


def _common(container: Object, around: Surroundings, path: str) -> Errors:
    name = container.get("name") or ""
    errors = dns_label(name, f"{path}.name") if name else [fe.required(f"{path}.name", "")]
    if not container.get("image"):
        errors.append(fe.required(f"{path}.image", ""))
    errors += choice(
        container.get("terminationMessagePolicy"),
        ("File", "FallbackToLogsOnError"),
        f"{path}.terminationMessagePolicy",
    )
    errors += _port_errors(container.get("ports") or [], f"{path}.ports")
    errors += _environment_errors(container.get("env") or [], f"{path}.env")
    errors += _environment_sources(container.get("envFrom") or [], f"{path}.envFrom")
    errors += mount_errors(container, around.volumes, path)
    errors += choice(
        container.get("imagePullPolicy"), ("Always", "IfNotPresent", "Never"), f"{path}.imagePullPolicy"
    )
    errors += requirement_errors(container.get("resources") or {}, around.claims, f"{path}.resources")
    errors += _resize_errors(container.get("resizePolicy") or [], around, f"{path}.resizePolicy")
    return errors + container_security_errors(
        container.get("securityContext"), f"{path}.securityContext", host_users=around.host_users
    )


def _port_errors(ports: list[Object], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, one in enumerate(ports):
        where, name = f"{path}[{position}]", one.get("name") or ""
        if name:
            wrong = names.check_port_name(name)
            if wrong:
                errors += [fe.invalid(f"{where}.name", name, text) for text in wrong]
            elif name in seen:
                errors.append(fe.duplicate(f"{where}.name", name))
            else:
                seen.add(name)
        if not one.get("containerPort"):
            errors.append(fe.required(f"{where}.containerPort", ""))
        else:
            errors += port_number(one["containerPort"], f"{where}.containerPort")
        if one.get("hostPort"):
            errors += port_number(one["hostPort"], f"{where}.hostPort")
        errors += choice(one.get("protocol"), PROTOCOLS, f"{where}.protocol")
    return errors


def _host_port_errors(containers: list[Object], path: str) -> Errors:
    errors: Errors = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for position, one in enumerate(container.get("ports") or ()):
            if one.get("hostPort"):
                key = f"{one.get('protocol') or ''}/{one.get('hostIP') or ''}/{one['hostPort']}"
                if key in taken:
                    errors.append(fe.duplicate(f"{path}[{index}].ports[{position}].hostPort", key))
                taken.add(key)
    return errors


def _environment_name_errors(name: str, path: str) -> Errors:
    if all(" " <= char <= "~" and char != "=" for char in name):
        return []
    text = "a valid environment variable name must consist only of printable ASCII characters other than '='"
    return [fe.invalid(path, name, text)]


def _environment_errors(variables: list[Object], path: str) -> Errors:
    errors: Errors = []
    for position, variable in enumerate(variables):
        where, name = f"{path}[{position}]", variable.get("name") or ""
        if not name:
            errors.append(fe.required(f"{where}.name", ""))
        else:
            errors += _environment_name_errors(name, f"{where}.name")
        if variable.get("valueFrom") is not None:
            errors += _value_source(variable, f"{where}.valueFrom")
    return errors


def _value_source(variable: Object, path: str) -> Errors:
    source: Object = variable["valueFrom"]
    errors: Errors = []
    given = [kind for kind, value in source.items() if value is not None]
    if source.get("fieldRef") is not None:
        errors += field_reference_errors(source["fieldRef"], _ENVIRONMENT_FIELDS, f"{path}.fieldRef")
    if source.get("resourceFieldRef") is not None:
        errors += resource_reference_errors(
            source["resourceFieldRef"], f"{path}.resourceFieldRef", in_volume=False
        )
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if source.get(kind) is not None:
            errors += key_errors(source[kind], f"{path}.{kind}")
    if source.get("fileKeyRef") is not None:
        errors += _file_key_errors(source["fileKeyRef"], f"{path}.fileKeyRef")
    if not given:
        text = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
            "`fileKeyRef`"
        )
        errors.append(fe.invalid(path, "", text))
    elif variable.get("value"):
        errors.append(fe.invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        errors.append(fe.invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _file_key_errors(reference: Object, path: str) -> Errors:
    key, volume = reference.get("key") or "", reference.get("volumeName") or ""
    file = reference.get("path") or ""
    errors = _environment_name_errors(key, f"{path}.key") if key else [fe.required(f"{path}.key", "")]
    errors += dns_label(volume, f"{path}.volumeName") if volume else [fe.required(f"{path}.volumeName", "")]
    return errors + (no_backsteps(file, f"{path}.path") if file else [fe.required(f"{path}.path", "")])


def _environment_sources(sources: list[Object], path: str) -> Errors:
    errors: Errors = []
    for position, source in enumerate(sources):
        where = f"{path}[{position}]"
        if source.get("prefix"):
            errors += _environment_name_errors(source["prefix"], f"{where}.prefix")
        given = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
        for kind in given:
            name = source[kind].get("name") or ""
            at = f"{where}.{kind}.name"
            errors += dns_subdomain(name, at) if name else [fe.required(at, "")]
        if not given:
            errors.append(fe.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(fe.invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _resize_errors(policies: list[Object], around: Surroundings, path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, policy in enumerate(policies):
        resource, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in seen:
            errors.append(fe.duplicate(f"{path}[{position}]", resource))
        seen.add(resource)
        errors += choice(resource, ("cpu", "memory"), path)
        errors += choice(restart, ("NotRequired", "RestartContainer"), path)
        if around.restart_policy == "Never" and restart != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(fe.invalid(path, restart, text))
    return errors


def _restart_errors(container: Object, path: str) -> Errors:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    errors: Errors = []
    if policy is None:
        if rules:
            text = "must specify restartPolicy when restart rules are used"
            errors.append(fe.required(f"{path}.restartPolicy", text))
    elif policy not in ("Always", "Never", "OnFailure"):
        errors.append(fe.not_supported(f"{path}.restartPolicy", policy, ("Always", "Never", "OnFailure")))
    if len(rules) > 20:
        errors.append(fe.too_many(f"{path}.restartPolicyRules", len(rules), 20))
    for position, rule in enumerate(rules):
        where = f"{path}.restartPolicyRules[{position}]"
        errors += choice(rule.get("action"), ("Restart", "RestartAllContainers"), f"{where}.action")
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(fe.required(f"{where}.exitCodes", "must be specified"))
        else:
            errors += choice(codes.get("operator"), ("In", "NotIn"), f"{where}.exitCodes.operator")
    return errors


def _watching(container: Object, around: Surroundings, path: str) -> Errors:
    errors: Errors = []
    lifecycle = container.get("lifecycle")
    if lifecycle is not None:
        for hook in ("postStart", "preStop"):
            if lifecycle.get(hook) is not None:
                errors += _handler(lifecycle[hook], around.grace, f"{path}.lifecycle.{hook}")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) is not None:
            errors += _probe(container[name], name, around.grace, f"{path}.{name}")
    return errors


def _probe(probe: Object, name: str, grace: int | None, path: str) -> Errors:
    errors = _handler(probe, grace, path)
    for field in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        errors += non_negative(probe.get(field), f"{path}.{field}")
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        errors.append(
            fe.invalid(f"{path}.terminationGracePeriodSeconds", own_grace, "must be greater than 0")
        )
    if name == "readinessProbe":
        if own_grace is not None:
            text = "must not be set for readinessProbes"
            errors.append(fe.invalid(f"{path}.terminationGracePeriodSeconds", own_grace, text))
    elif probe.get("successThreshold") != 1:
        errors.append(fe.invalid(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1"))
    return errors


def _handler(handler: Object, grace: int | None, path: str) -> Errors:
    errors: Errors = []
    given = [
        kind for kind in ("exec", "httpGet", "tcpSocket", "grpc", "sleep") if handler.get(kind) is not None
    ]
    if not given:
        return [fe.required(path, "must specify a handler type")]
    first, *others = given
    action, where = handler[first], f"{path}.{first}"
    if first == "exec" and not action.get("command"):
        errors.append(fe.required(f"{where}.command", ""))
    elif first == "httpGet":
        if not action.get("path"):
            errors.append(fe.required(f"{where}.path", ""))
        errors += port(action.get("port"), f"{where}.port")
        if action.get("scheme") not in ("HTTP", "HTTPS"):
            errors.append(fe.not_supported(f"{where}.scheme", action.get("scheme") or "", ("HTTP", "HTTPS")))
        for header in action.get("httpHeaders") or ():
            errors += [
                fe.invalid(f"{where}.httpHeaders", header.get("name") or "", text)
                for text in names.check_http_header_name(header.get("name") or "")
            ]
    elif first in ("tcpSocket", "grpc"):
        errors += port(action.get("port"), f"{where}.port")
    elif first == "sleep":
        seconds = action.get("seconds") or 0
        if grace is not None and not 0 <= seconds <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            errors.append(fe.invalid(where, seconds, text))
    return errors + [
        fe.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type") for kind in others
    ]
