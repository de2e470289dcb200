"""Rules of a pod spec as a whole."""

from __future__ import annotations

from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.controlplane.kinds.validation.addresses import legacy_ip_errors
from kubewright.controlplane.kinds.validation.formats import (
    MAX_INT32,
    Errors,
    choice,
    dns_label,
    dns_subdomain,
    dns_subdomain_with_underscores,
    in_range,
    non_negative,
    qualified_name,
)
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import label_errors

from .annotations import annotation_errors, annotation_match_errors
from .containers import Surroundings, container_list_errors, image_space_errors
from .operating_system import host_process_errors, operating_system_errors
from .resources import claim_list_errors, requirement_errors, whole_resource_errors
from .scheduling import affinity_errors, spread_errors, toleration_errors
from .security import pod_security_errors
from .volumes import volume_errors

Object = dict[str, Any]

_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_SEARCH_TEXT = 2048
_HOST_NAME_LENGTH = 64


def pod_errors(pod: Object) -> Errors:
    """Everything wrong with a pod beside its metadata, whether it is new or changed."""
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
            errors += image_space_errors(container, f"spec.{kind}[{position}]")
    return errors


def new_pod_errors(pod: Object) -> Errors:
    """What only a new pod can do wrong."""
    spec: Object = pod.get("spec") or {}
    errors = pod_errors(pod)
    if spec.get("ephemeralContainers"):
        errors.append(fe.forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(fe.forbidden("spec.nodeName", text))
    return errors + annotation_match_errors(pod["metadata"].get("annotations") or {}, spec, "spec")


def pod_spec_errors(spec: Object, path: str, *, pod_name: str = "", is_pod: bool = False) -> Errors:
    """Everything wrong with the spec of a pod or of a template."""
    volumes, errors = volume_errors(spec.get("volumes") or [], pod_name, f"{path}.volumes")
    errors += claim_list_errors(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    errors += container_list_errors(spec, Surroundings(spec, volumes), path)
    errors += whole_resource_errors(spec, f"{path}.resources")
    if spec.get("hostNetwork"):
        errors += _host_network_errors(spec, is_pod, path)
    errors += choice(spec.get("restartPolicy"), ("Always", "OnFailure", "Never"), f"{path}.restartPolicy")
    errors += choice(spec.get("dnsPolicy"), _DNS_POLICIES, f"{path}.dnsPolicy")
    errors += label_errors(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    errors += pod_security_errors(spec.get("securityContext"), spec, f"{path}.securityContext")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(fe.invalid(f"{path}.securityContext.shareProcessNamespace", True, text))
    errors += affinity_errors(spec.get("affinity"), f"{path}.affinity")
    errors += _dns_errors(spec, f"{path}.dnsConfig")
    for position, gate in enumerate(spec.get("readinessGates") or ()):
        where = f"{path}.readinessGates[{position}].conditionType"
        errors += qualified_name(gate.get("conditionType") or "", where)
    errors += _gate_errors(spec.get("schedulingGates") or [], f"{path}.schedulingGates")
    errors += spread_errors(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    errors += host_process_errors(spec, path)
    if spec.get("hostUsers") is False:
        errors += [
            fe.forbidden(f"{path}.{field}", "when `hostUsers` is false")
            for field in ("hostNetwork", "HostPID", "HostIPC")
            if spec.get(f"h{field[1:]}")
        ]
    errors += _host_name_errors(spec, f"{path}.hostnameOverride")
    for field in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if spec.get(field):
            errors += dns_subdomain(spec[field], f"{path}.{field}")
    if spec.get("activeDeadlineSeconds") is not None:
        errors += in_range(spec["activeDeadlineSeconds"], 1, MAX_INT32, f"{path}.activeDeadlineSeconds")
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors += dns_label(spec[field], f"{path}.{field}")
    errors += toleration_errors(spec.get("tolerations") or [], f"{path}.tolerations")
    for position, alias in enumerate(spec.get("hostAliases") or ()):
        errors += legacy_ip_errors(alias.get("ip") or "", f"{path}.hostAliases[{position}].ip")
        for index, hostname in enumerate(alias.get("hostnames") or ()):
            errors += dns_subdomain(hostname, f"{path}.hostAliases[{position}].hostnames[{index}]")
    if spec.get("preemptionPolicy") is not None:
        allowed = ("PreemptLowerPriority", "Never")
        errors += choice(spec["preemptionPolicy"], allowed, f"{path}.preemptionPolicy")
    if spec.get("overhead") is not None:
        errors += requirement_errors({"limits": spec["overhead"]}, set(), f"{path}.overhead")
    errors += operating_system_errors(spec, path)
    return errors + _file_volume_errors(spec, path)


def _host_name_errors(spec: Object, path: str) -> Errors:
    name = spec.get("hostnameOverride")
    if name is None:
        return []
    errors = [
        fe.forbidden(path, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if len(name) > _HOST_NAME_LENGTH:
        errors.append(fe.too_long(path, _HOST_NAME_LENGTH))
    return errors + dns_subdomain(name, path)


def _file_volume_errors(spec: Object, path: str) -> Errors:
    """Variables that are read from a file: it lies in an empty directory of the pod."""
    volumes = {one.get("name"): one for one in spec.get("volumes") or ()}
    errors: Errors = []
    for kind in ("initContainers", "containers", "ephemeralContainers"):
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


def _host_network_errors(spec: Object, is_pod: bool, path: str) -> Errors:
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


def _gate_errors(gates: list[Object], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, gate in enumerate(gates):
        name = gate.get("name") or ""
        errors += qualified_name(name, f"{path}[{position}]")
        if name in seen:
            errors.append(fe.duplicate(f"{path}[{position}]", name))
        seen.add(name)
    return errors


def _dns_errors(spec: Object, path: str) -> Errors:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or []
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [fe.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not servers:
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [fe.required(f"{path}.nameservers", text)]
    if config is None:
        return []
    errors: Errors = []
    if len(servers) > 3:
        errors.append(fe.invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers"))
    for position, server in enumerate(servers):
        errors += legacy_ip_errors(server, f"{path}.nameservers[{position}]")
    searches = config.get("searches") or []
    if len(searches) > 32:
        errors.append(fe.invalid(f"{path}.searches", searches, "must not have more than 32 search paths"))
    if len(" ".join(searches)) > _MAX_SEARCH_TEXT:
        text = f"must not have more than {_MAX_SEARCH_TEXT} characters (including spaces) in the search list"
        errors.append(fe.invalid(f"{path}.searches", searches, text))
    for position, search in enumerate(searches):
        if search != ".":
            where = f"{path}.searches[{position}]"
            errors += dns_subdomain_with_underscores(search.removesuffix("."), where)
    for position, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(fe.required(f"{path}.options[{position}]", "must not be empty"))
    return errors
