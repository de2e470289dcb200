"""Containers of pods: names, images, ports, environment, probes and lifecycle hooks."""

from __future__ import annotations

from kubewright.api.field_errors import FieldError
from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values import names
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    NOT_NEGATIVE,
    OPTIONAL_PORT,
    PORT,
    PORT_NAME,
    Check,
    Entry,
    Enum,
    Errors,
    Format,
    MaxItems,
    Members,
    Minimum,
    ReportAt,
    Required,
    Rules,
    Unique,
)
from kubewright.controlplane.kinds.validation.formats import no_backsteps, port
from kubewright.schema import field_errors as fe

from .mounts import check_mounts
from .references import KEY_REFERENCE, check_field_reference, check_resource_reference
from .resources import requirement_errors
from .security import CONTAINER_SECURITY

CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
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
_REQUIRED = Required()


class PodContext:
    """The parts of a pod spec that rules of its containers depend on."""

    __slots__ = ("claims", "grace", "host_users", "restart_policy", "spec", "volumes")

    def __init__(self, spec: Object, volumes: dict[str, Object]) -> None:
        self.spec = spec
        self.volumes = volumes
        self.claims = {claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name")}
        self.grace: int | None = spec.get("terminationGracePeriodSeconds")
        self.restart_policy: str = spec.get("restartPolicy") or ""
        self.host_users = spec.get("hostUsers") is not False


def check_containers(spec: Object, path: str, context: PodContext) -> Errors:
    """Check the three lists of containers of a pod."""
    return (
        _check_regular(spec.get("containers") or [], f"{path}.containers", context)
        + _check_init(spec, f"{path}.initContainers", context)
        + _check_ephemeral(spec, f"{path}.ephemeralContainers", context)
    )


def _check_regular(containers: list[Object], path: str, context: PodContext) -> Errors:
    if not containers:
        return [fe.required(path, "")]
    return _REGULAR(containers, path, context) + _check_host_ports(containers, path)


def _check_init(spec: Object, path: str, context: PodContext) -> Errors:
    errors: Errors = []
    seen = {container.get("name") or "" for container in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        where, name = f"{path}[{index}]", container.get("name") or ""
        errors += CONTAINER(container, where, context)
        errors += _check_init_restart(container, where)
        if name in seen:
            errors.append(fe.duplicate(f"{where}.name", name))
        elif name:
            seen.add(name)
        errors += _check_host_ports([container], path)
        if container.get("restartPolicy") == "Always":
            errors += _LIFECYCLE(container, where, context)
        else:
            text = "may not be set for init containers without restartPolicy=Always"
            errors += [
                fe.forbidden(f"{where}.{field}", text)
                for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
                if container.get(field) is not None
            ]
    return errors


def _check_ephemeral(spec: Object, path: str, context: PodContext) -> Errors:
    containers = spec.get("ephemeralContainers")
    if not containers:
        return []
    errors: Errors = []
    others = {
        container.get("name") or ""
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
    }
    seen = set(others)
    forbidden = "cannot be set for an Ephemeral Container"
    for index, container in enumerate(containers):
        where, name = f"{path}[{index}]", container.get("name") or ""
        errors += CONTAINER(container, where, context)
        errors += check_image_whitespace(container, where)
        if name in seen:
            errors.append(fe.duplicate(f"{where}.name", name))
        seen.add(name)
        target = container.get("targetContainerName") or ""
        if target and target not in others:
            errors.append(FieldError.not_found(f"{where}.targetContainerName", target))
        for field, value in container.items():
            empty = value in (None, []) or (value == {} and field == "resources")
            if field not in _EPHEMERAL_FIELDS and not empty:
                errors.append(fe.forbidden(f"{where}.{field}", forbidden))
        for position, mount in enumerate(container.get("volumeMounts") or ()):
            errors += [
                fe.forbidden(f"{where}.volumeMounts[{position}].{field}", forbidden)
                for field in ("subPath", "subPathExpr")
                if mount.get(field)
            ]
    return errors


def check_image_whitespace(container: Object, path: str) -> Errors:
    """Check that an image has no surrounding whitespace; templates are not checked."""
    image = container.get("image") or ""
    if image.strip() == image:
        return []
    return [fe.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]


def _check_host_ports(containers: list[Object], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for position, entry in enumerate(container.get("ports") or ()):
            if entry.get("hostPort"):
                key = f"{entry.get('protocol') or ''}/{entry.get('hostIP') or ''}/{entry['hostPort']}"
                if key in seen:
                    errors.append(fe.duplicate(f"{path}[{index}].ports[{position}].hostPort", key))
                seen.add(key)
    return errors


def _check_env_name(name: str) -> list[str]:
    if name.isascii() and name.isprintable() and "=" not in name:
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
    ]


def _check_value_source(variable: Object, path: str) -> Errors:
    source: Object | None = variable.get("valueFrom")
    if source is None:
        return []
    path = f"{path}.valueFrom"
    errors = _VALUE_SOURCE(source, path)
    present = sum(value is not None for value in source.values())
    text = ""
    if not present:
        text = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
            "`fileKeyRef`"
        )
    elif variable.get("value"):
        text = "may not be specified when `value` is not empty"
    elif present > 1:
        text = "may not have more than one field specified at a time"
    return [*errors, fe.invalid(path, "", text)] if text else errors


def _check_env_from(source: Object, path: str) -> Errors:
    present = sum(source.get(kind) is not None for kind in ("configMapRef", "secretRef"))
    if not present:
        return [fe.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")]
    if present > 1:
        return [fe.invalid(path, "", "may not have more than one field specified at a time")]
    return []


def _check_resize(policies: list[Object], path: str, context: PodContext) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in seen:
            errors.append(fe.duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        errors += _RESIZE(policy, path)
        if context.restart_policy == "Never" and restart != "NotRequired":
            pod = "" if serving_version().includes("-1.35") else "pod "
            text = f"must be 'NotRequired' when {pod}`restartPolicy` is 'Never'"
            errors.append(fe.invalid(path, restart, text))
    return errors


def _check_init_restart(container: Object, path: str) -> Errors:
    policy = container.get("restartPolicy")
    if serving_version().includes("-1.33") and policy not in (None, "Always"):
        return [fe.not_supported(f"{path}.restartPolicy", policy, ("Always",))]
    return _RESTART(container, path)


def _check_regular_restart(container: Object, path: str) -> Errors:
    if serving_version().includes("-1.33") and container.get("restartPolicy") is not None:
        return [fe.forbidden(f"{path}.restartPolicy", "may not be set for non-init containers")]
    return _RESTART(container, path)


def _check_restart_policy(container: Object, path: str) -> Errors:
    if container.get("restartPolicy") is None and container.get("restartPolicyRules"):
        text = "must specify restartPolicy when restart rules are used"
        return [fe.required(f"{path}.restartPolicy", text)]
    return []


def _check_sleep(action: Object, path: str, context: PodContext) -> Errors:
    seconds, grace = action.get("seconds") or 0, context.grace
    if grace is None or 0 <= seconds <= grace:
        return []
    text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
    return [fe.invalid(path, seconds, text)]


def _check_success_threshold(probe: Object, path: str) -> Errors:
    if probe.get("successThreshold") == 1:
        return []
    return [fe.invalid(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1")]


def _check_no_grace(seconds: int, path: str) -> Errors:
    return [fe.invalid(path, seconds, "must not be set for readinessProbes")]


_ENV_NAME = Format(_check_env_name)
_PULL_POLICY = Enum("Always", "IfNotPresent", "Never")
_SCHEME = Enum("HTTP", "HTTPS", absent="")
_VALUE_SOURCE = Rules(
    {
        "fieldRef": lambda value, path: check_field_reference(value, _ENVIRONMENT_FIELDS, path),
        "resourceFieldRef": lambda value, path: check_resource_reference(value, path, in_volume=False),
        "configMapKeyRef?": KEY_REFERENCE,
        "secretKeyRef?": KEY_REFERENCE,
        "fileKeyRef?": {
            "key": [_REQUIRED, _ENV_NAME],
            "volumeName": [_REQUIRED, DNS_LABEL],
            "path": [_REQUIRED, no_backsteps],
        },
    }
)
_RESIZE = Rules(
    {
        "resourceName": ReportAt(".", [_REQUIRED, Enum("cpu", "memory")]),
        "restartPolicy": ReportAt(".", [_REQUIRED, Enum("NotRequired", "RestartContainer")]),
    }
)
CONTAINER = Rules(
    [
        {
            "name": [_REQUIRED, DNS_LABEL],
            "image": _REQUIRED,
            "terminationMessagePolicy": [_REQUIRED, Enum("File", "FallbackToLogsOnError")],
            "ports[*].name": PORT_NAME,
            "ports[*]": Unique("name", ignore_empty=True, only=PORT_NAME),
            "ports[*].containerPort": [_REQUIRED, PORT],
            "ports[*].hostPort": OPTIONAL_PORT,
            "ports[*].protocol": [_REQUIRED, Enum(*PROTOCOLS)],
            "env[*]": [{"name": [_REQUIRED, _ENV_NAME]}, _check_value_source],
            "envFrom[*]": [
                {
                    "prefix": _ENV_NAME,
                    "configMapRef?.name": [_REQUIRED, DNS_SUBDOMAIN],
                    "secretRef?.name": [_REQUIRED, DNS_SUBDOMAIN],
                },
                ReportAt("", _check_env_from),
            ],
        },
        Check(lambda value, path, context: check_mounts(value, path, context.volumes), context=True),
        {
            "imagePullPolicy": [_REQUIRED, _PULL_POLICY],
            "resources": Check(
                lambda value, path, context: requirement_errors(value, context.claims, path), context=True
            ),
            "resizePolicy": Check(_check_resize, context=True),
            "securityContext?": CONTAINER_SECURITY,
        },
    ]
)
"""Rules that all three lists of containers share; the context is a `PodContext`."""
_HANDLER = Members(
    {
        "exec": {"command": _REQUIRED},
        "httpGet": {
            "path": _REQUIRED,
            "port": Check(port, absent=0),
            "scheme": _SCHEME,
            "httpHeaders[*].name": ReportAt(
                "httpHeaders",
                Check(
                    lambda name, path: [
                        fe.invalid(path, name, text) for text in names.check_http_header_name(name)
                    ],
                    absent="",
                ),
            ),
        },
        "tcpSocket": {"port": Check(port, absent=0)},
        "grpc": {"port": Check(port, absent=0)},
        "sleep": Check(_check_sleep, context=True),
    },
    missing="must specify a handler type",
    excess="may not specify more than 1 handler type",
)
_PROBE: Entry = [
    _HANDLER,
    {
        "initialDelaySeconds": NOT_NEGATIVE,
        "timeoutSeconds": NOT_NEGATIVE,
        "periodSeconds": NOT_NEGATIVE,
        "successThreshold": NOT_NEGATIVE,
        "failureThreshold": NOT_NEGATIVE,
        "terminationGracePeriodSeconds": Minimum(1, detail="must be greater than 0"),
    },
]
_LIFECYCLE = Rules(
    {
        "lifecycle.postStart": _HANDLER,
        "lifecycle.preStop": _HANDLER,
        "livenessProbe": [_PROBE, _check_success_threshold],
        "readinessProbe": [_PROBE, {"terminationGracePeriodSeconds": _check_no_grace}],
        "startupProbe": [_PROBE, _check_success_threshold],
    }
)
_RESTART = Rules(
    [
        _check_restart_policy,
        {
            "restartPolicy": Enum("Always", "Never", "OnFailure"),
            "restartPolicyRules": MaxItems(20),
            "restartPolicyRules[*].action": [_REQUIRED, Enum("Restart", "RestartAllContainers")],
            "restartPolicyRules[*].exitCodes": [
                Required("must be specified", pointer=True),
                {"operator": [_REQUIRED, Enum("In", "NotIn")]},
            ],
        },
    ]
)
_REGULAR = Rules({"[*]": [CONTAINER, Unique("name"), _LIFECYCLE, _check_regular_restart]})
