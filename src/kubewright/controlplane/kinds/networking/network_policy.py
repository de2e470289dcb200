"""NetworkPolicy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.defaults import Defaults
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, field, label_selector_text
from kubewright.controlplane.kinds.validation import (
    PORT_NAME,
    Check,
    Entry,
    Enum,
    Errors,
    MaxItems,
    Rules,
)
from kubewright.controlplane.kinds.validation.addresses import (
    Network,
    legacy_range_errors,
    parse_range,
    range_warnings,
)
from kubewright.controlplane.kinds.validation.formats import port_number
from kubewright.schema import field_errors as fe


def _default_policy_types(spec: Object) -> None:
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _port_errors(entry: Object, path: str) -> Errors:
    port, end, end_path = entry.get("port"), entry.get("endPort"), f"{path}.endPort"
    errors: Errors = []
    if port is None:
        if end is not None:
            errors.append(fe.invalid(end_path, end, "may not be specified when `port` is not specified"))
    elif isinstance(port, int):
        errors += port_number(port, f"{path}.port")
        if end is not None:
            if end < port:
                errors.append(fe.invalid(end_path, port, "must be greater than or equal to `port`"))
            errors += port_number(end, end_path)
    else:
        if end is not None:
            errors.append(fe.invalid(end_path, end, "may not be specified when `port` is non-numeric"))
        errors += PORT_NAME.errors(port, f"{path}.port")
    return errors


def _peer_errors(peer: Object, path: str) -> Errors:
    has_selector = peer.get("podSelector") is not None or peer.get("namespaceSelector") is not None
    has_block = peer.get("ipBlock") is not None
    if not has_block and not has_selector:
        return [fe.required(path, "must specify a peer")]
    if has_block and has_selector:
        return [fe.forbidden(path, "may not specify both ipBlock and another peer")]
    return []


def _block_errors(block: Object, path: str, known: frozenset[str]) -> Errors:
    cidr = block.get("cidr") or ""
    if not cidr:
        return [fe.required(f"{path}.cidr", "")]
    errors = legacy_range_errors(cidr, f"{path}.cidr", known)
    parsed = parse_range(cidr)
    for index, part in enumerate(block.get("except") or () if parsed is not None else ()):
        where = f"{path}.except[{index}]"
        errors += legacy_range_errors(part, where, known)
        excluded = parse_range(part)
        if parsed is not None and excluded is not None and not _is_strict_subset(excluded[1], parsed[1]):
            errors.append(fe.invalid(where, part, "must be a strict subset of `cidr`"))
    return errors


def _is_strict_subset(part: Network, network: Network) -> bool:
    return (
        network.version == part.version
        and part.network_address in network
        and network.prefixlen < part.prefixlen
    )


_PORT: Entry = [{"protocol": Enum("TCP", "UDP", "SCTP")}, _port_errors]
_PEER: Entry = [
    {
        "podSelector": selector_errors,
        "namespaceSelector": selector_errors,
        "ipBlock": Check(_block_errors, context=True),
    },
    _peer_errors,
]
RULES = Rules(
    {
        "spec.podSelector": selector_errors,
        "spec.ingress[*].ports[*]": _PORT,
        "spec.ingress[*].from[*]": _PEER,
        "spec.egress[*].ports[*]": _PORT,
        "spec.egress[*].to[*]": _PEER,
        "spec.policyTypes": MaxItems(2, "may not specify more than two policyTypes", stop=True),
        "spec.policyTypes[*]": Enum("Ingress", "Egress"),
    }
)


def _blocks(obj: Object) -> Iterator[tuple[str, Object]]:
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for position, rule in enumerate(field(obj, f"spec.{direction}", ())):
            for index, peer in enumerate(rule.get(peers) or ()):
                if peer.get("ipBlock") is not None:
                    yield f"spec.{direction}[{position}].{peers}[{index}].ipBlock", peer["ipBlock"]


def _update_errors(new: Object, old: Object) -> Errors:
    """Accept address ranges of the old object, which may be older than the rules for new ones."""
    known = {
        text for _, block in _blocks(old) for text in (block.get("cidr", ""), *(block.get("except") or ()))
    }
    return RULES(new, context=frozenset(known))


def _warnings(obj: Object, old: Object | None) -> Iterable[str]:
    for path, block in _blocks(obj):
        yield from range_warnings(block.get("cidr", ""), f"{path}.cidr")
        for index, part in enumerate(block.get("except") or ()):
            yield from range_warnings(part, f"{path}.except[{index}]")


def _pod_selector_text(obj: Object) -> str:
    return label_selector_text(field(obj, "spec.podSelector", {}))


KINDS = {
    "networkpolicies": Kind(
        default=Defaults(
            {
                "spec": _default_policy_types,
                "spec.ingress[*].ports[*].protocol": "TCP",
                "spec.egress[*].ports[*].protocol": "TCP",
            }
        ),
        validate=lambda obj: RULES(obj, context=frozenset()),
        validate_update=_update_errors,
        warnings=_warnings,
        generation_fields=("spec",),
        columns=(
            column("Pod-Selector", _pod_selector_text, description="Selector of the pods of the policy."),
            AGE,
        ),
    ),
}
