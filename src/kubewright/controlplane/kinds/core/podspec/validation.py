"""Validation of pod specs, of pods and of pod templates."""

from __future__ import annotations

from kubewright.api.field_errors import FieldError
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    QUALIFIED_NAME,
    Check,
    Enum,
    Errors,
    MaxItems,
    Range,
    Required,
    Rules,
    Unique,
)
from kubewright.controlplane.kinds.validation.addresses import legacy_ip_errors
from kubewright.controlplane.kinds.validation.formats import (
    choice,
    dns_subdomain,
    dns_subdomain_with_underscores,
    non_negative,
    qualified_name,
)
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import label_errors

from .annotations import annotation_errors, annotation_match_errors
from .containers import CONTAINER_LISTS, PodContext, check_containers, check_image_whitespace
from .operating_system import check_host_process, check_operating_system
from .resources import claim_list_errors, pod_resource_errors, requirement_errors
from .scheduling import affinity_errors, spread_errors, toleration_errors
from .security import POD_SECURITY
from .volumes import check_volumes

_MAX_SEARCH_TEXT = 2048
_HOST_NAME_LENGTH = 64


class SpecContext(PodContext):
    """The context of rules of a pod spec."""

    __slots__ = ("is_pod",)

    def __init__(self, spec: Object, volumes: dict[str, Object], *, is_pod: bool) -> None:
        super().__init__(spec, volumes)
        self.is_pod = is_pod


def pod_errors(pod: Object) -> Errors:
    """Check a new or changed pod, except for its metadata."""
    spec: Object = pod.get("spec") or {}
    errors = annotation_errors(pod["metadata"].get("annotations") or {}, spec, "metadata.annotations")
    errors += pod_spec_errors(spec, "spec", pod_name=pod["metadata"].get("name") or "", is_pod=True)
    if not spec.get("serviceAccountName"):
        for position, volume in enumerate(spec.get("volumes") or ()):
            for index, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    where = f"spec.volumes[{position}].projected.sources[{index}].serviceAccountToken"
                    text = "must not be specified when serviceAccountName is not set"
                    errors.append(fe.forbidden(where, text))
    errors += non_negative(spec.get("terminationGracePeriodSeconds"), "spec.terminationGracePeriodSeconds")
    for kind in ("containers", "initContainers"):
        for position, container in enumerate(spec.get(kind) or ()):
            errors += check_image_whitespace(container, f"spec.{kind}[{position}]")
    return errors


def new_pod_errors(pod: Object) -> Errors:
    """Check a new pod."""
    spec: Object = pod.get("spec") or {}
    errors = pod_errors(pod)
    if spec.get("ephemeralContainers"):
        errors.append(fe.forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(fe.forbidden("spec.nodeName", text))
    return errors + annotation_match_errors(pod["metadata"].get("annotations") or {}, spec, "spec")


def pod_spec_errors(spec: Object, path: str, *, pod_name: str = "", is_pod: bool = False) -> Errors:
    """Check the spec of a pod or of a template."""
    volumes, errors = check_volumes(spec, path, pod_name)
    return errors + POD_SPEC(spec, path, SpecContext(spec, volumes, is_pod=is_pod))


def _check_process_namespace(spec: Object, path: str) -> Errors:
    if not spec.get("shareProcessNamespace") or not spec.get("hostPID"):
        return []
    text = "ShareProcessNamespace and HostPID cannot both be enabled"
    return [fe.invalid(f"{path}.securityContext.shareProcessNamespace", True, text)]


def _check_user_namespace(spec: Object, path: str) -> Errors:
    if spec.get("hostUsers") is not False:
        return []
    return [
        fe.forbidden(f"{path}.{field}", "when `hostUsers` is false")
        for field in ("hostNetwork", "HostPID", "HostIPC")
        if spec.get(f"h{field[1:]}")
    ]


def _check_hostname_override(spec: Object, path: str) -> Errors:
    name = spec.get("hostnameOverride")
    if name is None:
        return []
    path = f"{path}.hostnameOverride"
    errors = [
        fe.forbidden(path, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if len(name) > _HOST_NAME_LENGTH:
        errors.append(fe.too_long(path, _HOST_NAME_LENGTH))
    return errors + dns_subdomain(name, path)


def _check_file_volumes(spec: Object, path: str) -> Errors:
    """Check that variables that are read from a file refer to an emptyDir volume."""
    volumes = {one.get("name"): one for one in spec.get("volumes") or ()}
    errors: Errors = []
    for kind in CONTAINER_LISTS:
        for index, container in enumerate(spec.get(kind) or ()):
            for position, variable in enumerate(container.get("env") or ()):
                reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if reference is None:
                    continue
                name = reference.get("volumeName") or ""
                where = f"{path}.{kind}[{index}].env[{position}].valueFrom.fileKeyRef.volumeName"
                if name not in volumes:
                    errors.append(FieldError.not_found(where, name))
                elif volumes[name].get("emptyDir") is None:
                    errors.append(fe.invalid(where, name, "referenced volume must be of type emptyDir"))
    return errors


def _check_host_network(spec: Object, path: str, context: SpecContext) -> Errors:
    if not spec.get("hostNetwork"):
        return []
    is_pod = context.is_pod
    return [
        fe.invalid(
            f"{path}.containers[{index}].ports[{position}].hostPort",
            port.get("hostPort") or 0,
            "must match `containerPort` when `hostNetwork` is true",
        )
        for index, container in enumerate(spec.get("containers") or ())
        for position, port in enumerate(container.get("ports") or ())
        if (is_pod or port.get("hostPort")) and (port.get("hostPort") or 0) != port.get("containerPort", 0)
    ]


def _check_dns(spec: Object, path: str) -> Errors:
    config, path = spec.get("dnsConfig"), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [fe.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [fe.required(f"{path}.nameservers", text)]
    return _DNS_CONFIG(config, path) if config else []


def _check_search_list(searches: list[str], path: str) -> Errors:
    if len(" ".join(searches)) <= _MAX_SEARCH_TEXT:
        return []
    text = f"must not have more than {_MAX_SEARCH_TEXT} characters (including spaces) in the search list"
    return [fe.invalid(path, searches, text)]


def _check_search(search: str, path: str) -> Errors:
    return [] if search == "." else dns_subdomain_with_underscores(search.removesuffix("."), path)


def _check_option(option: Object, path: str) -> Errors:
    return [] if option.get("name") else [fe.required(path, "must not be empty")]


def _check_gate(gate: Object, path: str) -> Errors:
    return qualified_name(gate.get("name") or "", path)


def _check_preemption_policy(policy: str, path: str) -> Errors:
    return choice(policy, ("PreemptLowerPriority", "Never"), path)


def _check_overhead(overhead: Object, path: str) -> Errors:
    return requirement_errors({"limits": overhead}, set(), path)


_DNS_CONFIG = Rules(
    {
        "nameservers": MaxItems(3, "must not have more than 3 nameservers"),
        "nameservers[*]": legacy_ip_errors,
        "searches": [MaxItems(32, "must not have more than 32 search paths"), _check_search_list],
        "searches[*]": _check_search,
        "options[*]": _check_option,
    }
)
POD_SPEC = Rules(
    [
        {"resourceClaims": claim_list_errors},
        Check(check_containers, context=True),
        pod_resource_errors,
        Check(_check_host_network, context=True),
        {
            "restartPolicy": [Required(), Enum("Always", "OnFailure", "Never")],
            "dnsPolicy": [
                Required(),
                Enum("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
            ],
            "nodeSelector": label_errors,
            "securityContext?": POD_SECURITY,
        },
        _check_process_namespace,
        {"affinity": affinity_errors},
        _check_dns,
        {
            "readinessGates[*].conditionType": QUALIFIED_NAME,
            "schedulingGates[*]": [_check_gate, Unique("name", at="")],
            "topologySpreadConstraints": spread_errors,
        },
        check_host_process,
        _check_user_namespace,
        _check_hostname_override,
        {
            "serviceAccountName": DNS_SUBDOMAIN,
            "nodeName": DNS_SUBDOMAIN,
            "priorityClassName": DNS_SUBDOMAIN,
            "runtimeClassName": DNS_SUBDOMAIN,
            "activeDeadlineSeconds": Range(1, (1 << 31) - 1),
            "hostname": DNS_LABEL,
            "subdomain": DNS_LABEL,
            "tolerations": toleration_errors,
            "hostAliases[*]": {"ip": Check(legacy_ip_errors, absent=""), "hostnames[*]": dns_subdomain},
            "preemptionPolicy": _check_preemption_policy,
            "overhead": _check_overhead,
        },
        check_operating_system,
        _check_file_volumes,
    ]
)
"""Rules of a pod spec except for its volumes; the context is a `SpecContext`."""
