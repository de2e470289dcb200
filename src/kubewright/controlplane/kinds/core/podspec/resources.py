"""Resource names, quantities, requests and limits, and the QoS class."""

from __future__ import annotations

from kubewright.api.field_errors import FieldError
from kubewright.api.values import names
from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import Errors
from kubewright.controlplane.kinds.validation.formats import NON_NEGATIVE, dns_label, dns_subdomain
from kubewright.schema import field_errors as fe

NOT_AN_INTEGER = "must be an integer"
_STANDARD_CONTAINER = frozenset(("cpu", "memory", "ephemeral-storage"))
_CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
_COUNTED = frozenset(
    (
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
STANDARD_QUOTA = (
    frozenset(
        (
            "cpu",
            "memory",
            "ephemeral-storage",
            "requests.cpu",
            "requests.memory",
            "requests.storage",
            "requests.ephemeral-storage",
            "limits.cpu",
            "limits.memory",
            "limits.ephemeral-storage",
        )
    )
    | _COUNTED
)
_STANDARD = STANDARD_QUOTA | {"storage"}


def is_huge_page(name: str) -> bool:
    """Return whether a resource is huge pages."""
    return name.startswith("hugepages-")


def is_native(name: str) -> bool:
    """Return whether a resource is native: without a domain, or of kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def may_overcommit(name: str) -> bool:
    """Return whether requests may be lower than limits."""
    return is_native(name) and not is_huge_page(name)


def resource_name_errors(name: str, path: str) -> Errors:
    """Check a resource name: a standard one or a qualified name."""
    errors = [fe.invalid(path, name, text) for text in names.check_qualified_name(name)]
    if not errors and "/" not in name and not (name in _STANDARD or _is_quota_huge_page(name)):
        errors.append(fe.invalid(path, name, "must be a standard resource type or fully qualified"))
    return errors


def _is_quota_huge_page(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-"))


def container_resource_errors(name: str, path: str) -> Errors:
    """Check the name of a resource of containers."""
    errors = resource_name_errors(name, path)
    if "/" not in name:
        if name not in _STANDARD_CONTAINER and not is_huge_page(name):
            errors.append(fe.invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and (
        name.startswith("requests.") or names.check_qualified_name(f"requests.{name}")
    ):
        errors.append(fe.invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def quota_resource_errors(name: str, path: str) -> Errors:
    """Check the name of a resource of quotas."""
    errors = resource_name_errors(name, path)
    if "/" not in name and name not in STANDARD_QUOTA and not _is_quota_huge_page(name):
        errors.append(fe.invalid(path, name, "must be a standard resource for quota"))
    return errors


def quantity_errors(name: str, text: str, path: str) -> Errors:
    """Check a quantity of a resource."""
    quantity = Quantity(text)
    errors: Errors = []
    if quantity.nanos < 0:
        errors.append(fe.invalid(path, text, NON_NEGATIVE))
    if (name in _COUNTED or not is_native(name)) and quantity.nanos % 1_000_000_000:
        errors.append(fe.invalid(path, text, NOT_AN_INTEGER))
    return errors


def requirement_errors(requirements: Object, claims: set[str], path: str, *, of_pod: bool = False) -> Errors:
    """Check requests and limits of a container, or at pod level."""
    errors: Errors = []
    name_errors = _pod_resource_errors if of_pod else container_resource_errors
    limits: Object = requirements.get("limits") or {}
    requests: Object = requirements.get("requests") or {}
    for name in sorted(limits):
        where = f"{path}.limits[{name}]"
        errors += name_errors(name, where)
        errors += quantity_errors(name, limits[name], where)
        errors += _huge_page_errors(name, limits[name], where)
    for name in sorted(requests):
        where = f"{path}.requests[{name}]"
        errors += name_errors(name, where)
        errors += quantity_errors(name, requests[name], where)
        errors += _limit_errors(name, requests[name], limits.get(name), path)
        errors += _huge_page_errors(name, requests[name], where)
    names = limits.keys() | requests.keys()
    if any(is_huge_page(name) for name in names) and not names & {"cpu", "memory"}:
        errors.append(fe.forbidden(path, "HugePages require cpu or memory"))
    return errors + _claim_errors(requirements.get("claims") or [], claims, f"{path}.claims")


def _limit_errors(name: str, request: str, limit: str | None, path: str) -> Errors:
    if limit is None:
        if may_overcommit(name):
            return []
        return [fe.required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    requested, most = Quantity(request), Quantity(limit)
    if requested != most and not may_overcommit(name):
        return [fe.invalid(f"{path}.requests", request, f"must be equal to {name} limit of {limit}")]
    if requested > most:
        text = f"must be less than or equal to {name} limit of {limit}"
        return [fe.invalid(f"{path}.requests", request, text)]
    return []


def _huge_page_errors(name: str, text: str, path: str) -> Errors:
    if not is_huge_page(name):
        return []
    try:
        size = Quantity(name.removeprefix("hugepages-")).nanos
    except ValueError:
        size = 0
    nanos = Quantity(text).nanos
    if size > 0 and nanos >= 0 and nanos % size == 0:
        return []
    return [fe.invalid(path, text, f"{text} is not positive integer multiple of {name}")]


def _claim_errors(claims: list[Object], known: set[str], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, claim in enumerate(claims):
        where, name, request = f"{path}[{position}]", claim.get("name") or "", claim.get("request") or ""
        if not name:
            errors.append(fe.required(where, ""))
            continue
        if request:
            errors += dns_label(request, f"{where}.request")
        key = f"{name}/{request}" if request else name
        if name in seen or key in seen or (not request and any(one.startswith(f"{name}/") for one in seen)):
            errors.append(fe.duplicate(where, key))
        seen.add(key)
        if name not in known:
            names_text = ": " + ", ".join(sorted(known)) if known else " which is empty"
            error = FieldError.not_found(where, name)
            text = f"{error.message}: must be one of the names in pod.spec.resourceClaims{names_text}"
            errors.append(FieldError(error.reason, where, text))
    return errors


def _with_resources(spec: Object) -> list[Object]:
    return [one for kind in ("containers", "initContainers") for one in spec.get(kind) or ()]


def _is_for_pods(name: str) -> bool:
    return name in ("cpu", "memory") or is_huge_page(name)


def _together(spec: Object, part: str) -> dict[str, Quantity]:
    """Return the aggregate requests or limits of all containers, including the largest init container."""

    def amounts(container: Object) -> dict[str, Quantity]:
        found = (container.get("resources") or {}).get(part) or {}
        return {name: Quantity(text) for name, text in found.items()}

    def added(one: dict[str, Quantity], other: dict[str, Quantity]) -> dict[str, Quantity]:
        return one | {name: one[name].add(more) if name in one else more for name, more in other.items()}

    running: dict[str, Quantity] = {}
    sidecars: dict[str, Quantity] = {}
    most: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        running = added(running, amounts(container))
    for container in spec.get("initContainers") or ():
        now = added(sidecars, amounts(container))
        if container.get("restartPolicy") == "Always":
            running, sidecars = added(running, amounts(container)), now
        most |= {name: need for name, need in now.items() if name not in most or need > most[name]}
    for name, need in most.items():
        running[name] = max(need, running.get(name, need))
    return running


def pod_resource_errors(spec: Object, path: str) -> Errors:
    """Check requests and limits at pod level."""
    whole = spec.get("resources")
    if whole is None:
        return []
    path = f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        return [fe.forbidden(path, "may not be set for a windows pod")]
    errors: Errors = []
    if whole.get("claims") is not None:
        errors.append(fe.forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    errors += requirement_errors(whole, set(), path, of_pod=True)
    requests, limits = whole.get("requests") or {}, whole.get("limits") or {}
    for part, bounds in (("requests", requests), ("limits", limits)):
        for name, need in sorted(_together(spec, part).items()):
            bound = bounds.get(name) if part == "requests" or is_huge_page(name) else None
            if bound is not None and need > Quantity(bound):
                text = f"must be greater than or equal to aggregate container {part} of {need}"
                errors.append(fe.invalid(f"{path}.{part}[{name}]", bound, text))
    for position, container in enumerate(spec.get("containers") or ()):
        for name, limit in sorted(((container.get("resources") or {}).get("limits") or {}).items()):
            if name in limits and Quantity(limit) > Quantity(limits[name]):
                where = f"{path}.containers[{position}][{name}].limits"
                text = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(fe.invalid(where, limit, text))
    return errors


def _pod_resource_errors(name: str, path: str) -> Errors:
    errors = resource_name_errors(name, path)
    if not errors and not _is_for_pods(name):
        errors.append(fe.not_supported(path, name, ("cpu", "hugepages-", "memory")))
    return errors


def claim_list_errors(claims: list[Object], path: str) -> Errors:
    """Check the resource claims of a pod."""
    errors: Errors = []
    seen: set[str] = set()
    for position, claim in enumerate(claims):
        where, name = f"{path}[{position}]", claim.get("name") or ""
        if not name:
            errors.append(fe.required(f"{where}.name", ""))
        elif name in seen:
            errors.append(fe.duplicate(f"{where}.name", name))
        else:
            errors += dns_label(name, f"{where}.name")
            seen.add(name)
        given = [field for field in _CLAIM_SOURCES if claim.get(field) is not None]
        if len(given) != 1:
            shown = fe.GoStruct({"Name": name})
            shown.update({f"R{field[1:]}": claim.get(field) for field in _CLAIM_SOURCES})
            one, other = _CLAIM_SOURCES
            text = (
                f"at most one of `{one}` or `{other}` may be specified"
                if given
                else f"must specify one of: `{one}`, `{other}`"
            )
            errors.append(fe.invalid(where, shown, text))
        for field in given:
            errors += dns_subdomain(claim[field], f"{where}.{field}")
    return errors


def default_pod_requests(spec: Object) -> None:
    """Set requests at pod level from those of the containers, or from the limits of the pod.

    Applies to pods with requests or limits at pod level. Limits of huge pages are the sum of those of the
    containers.
    """
    whole = spec.get("resources") or {}
    if not whole.get("requests") and not whole.get("limits"):
        return
    requests: Object = dict(whole.get("requests") or {})
    limits: Object = dict(whole.get("limits") or {})
    for name, total in _together(spec, "limits").items():
        if is_huge_page(name) and name not in requests:
            limits.setdefault(name, str(total))
    for name, total in _together(spec, "requests").items():
        if name in ("cpu", "memory"):
            requests.setdefault(name, str(total))
    for name, text in limits.items():
        if _is_for_pods(name):
            requests.setdefault(name, text)
    for part, amounts in (("requests", requests), ("limits", limits)):
        if amounts:
            whole[part] = amounts


def qos_class(spec: Object) -> str:
    """Return the QoS class of a pod: `Guaranteed`, `Burstable` or `BestEffort`."""
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    whole = spec.get("resources") or {}
    counted = [spec] if whole.get("requests") or whole.get("limits") else _with_resources(spec)
    for container in counted:
        resources = container.get("resources") or {}
        for total, amounts in (
            (requests, resources.get("requests") or {}),
            (limits, resources.get("limits") or {}),
        ):
            for name in ("cpu", "memory"):
                if name in amounts and Quantity(amounts[name]).nanos > 0:
                    total[name] = total.get(name, Quantity(0)).add(Quantity(amounts[name]))
        limited = {
            name
            for name in ("cpu", "memory")
            if name in (resources.get("limits") or {}) and Quantity(resources["limits"][name]).nanos > 0
        }
        guaranteed = guaranteed and len(limited) == 2
    if not requests and not limits:
        return "BestEffort"
    if (
        guaranteed
        and len(requests) == len(limits)
        and all(requests.get(name) == amount for name, amount in limits.items())
    ):
        return "Guaranteed"
    return "Burstable"
