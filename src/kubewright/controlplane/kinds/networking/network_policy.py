"""Network policies: which traffic pods accept and send."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kubewright.api import names
from kubewright.apiserver.resource import Object
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, field, label_selector_text
from kubewright.controlplane.kinds.validation.addresses import (
    legacy_range_errors,
    parse_range,
    range_warnings,
)
from kubewright.controlplane.kinds.validation.formats import Errors, choice, named, port_number
from kubewright.schema import field_errors as fe

PROTOCOLS = ("TCP", "UDP", "SCTP")
POLICY_TYPES = ("Ingress", "Egress")


def _default_policy(policy: Object) -> None:
    spec = policy.get("spec")
    if not isinstance(spec, dict):
        return
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            if port.get("protocol") is None:
                port["protocol"] = "TCP"


def _policy_errors(policy: Object, known: frozenset[str] = frozenset()) -> Errors:
    spec = policy.get("spec") or {}
    errors = selector_errors(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for position, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{position}]"
            for index, port in enumerate(rule.get("ports") or ()):
                errors += _policy_port_errors(port, f"{path}.ports[{index}]")
            for index, peer in enumerate(rule.get(peers) or ()):
                errors += _peer_errors(peer, known, f"{path}.{peers}[{index}]")
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        text = "may not specify more than two policyTypes"
        return [*errors, fe.invalid("spec.policyTypes", types, text)]
    for position, kind in enumerate(types):
        if kind not in POLICY_TYPES:
            errors.append(fe.not_supported(f"spec.policyTypes[{position}]", kind, POLICY_TYPES))
    return errors


def _policy_port_errors(entry: Object, path: str) -> Errors:
    errors = choice(entry.get("protocol"), PROTOCOLS, f"{path}.protocol", required=False)
    port, end = entry.get("port"), entry.get("endPort")
    where = f"{path}.endPort"
    if port is None:
        if end is not None:
            errors.append(fe.invalid(where, end, "may not be specified when `port` is not specified"))
    elif isinstance(port, int):
        errors += port_number(port, f"{path}.port")
        if end is not None:
            if end < port:
                errors.append(fe.invalid(where, port, "must be greater than or equal to `port`"))
            errors += port_number(end, where)
    else:
        if end is not None:
            errors.append(fe.invalid(where, end, "may not be specified when `port` is non-numeric"))
        errors += named(names.check_port_name, port, f"{path}.port")
    return errors


def _peer_errors(peer: Object, known: frozenset[str], path: str) -> Errors:
    errors: Errors = []
    selectors = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    for name in selectors:
        errors += selector_errors(peer[name], f"{path}.{name}")
    block = peer.get("ipBlock")
    if block is not None:
        errors += _block_errors(block, known, f"{path}.ipBlock")
    if block is None and not selectors:
        errors.append(fe.required(path, "must specify a peer"))
    elif block is not None and selectors:
        errors.append(fe.forbidden(path, "may not specify both ipBlock and another peer"))
    return errors


def _block_errors(block: Object, known: frozenset[str], path: str) -> Errors:
    whole = block.get("cidr") or ""
    if not whole:
        return [fe.required(f"{path}.cidr", "")]
    errors = legacy_range_errors(whole, f"{path}.cidr", known)
    parsed = parse_range(whole)
    if parsed is None:
        return errors
    network = parsed[1]
    for position, part in enumerate(block.get("except") or ()):
        where = f"{path}.except[{position}]"
        errors += legacy_range_errors(part, where, known)
        inner = parse_range(part)
        if inner is None:
            continue
        excluded = inner[1]
        if not _contains(network, excluded) or network.prefixlen >= excluded.prefixlen:
            errors.append(fe.invalid(where, part, "must be a strict subset of `cidr`"))
    return errors


def _contains(network: Any, other: Any) -> bool:
    return bool(network.version == other.version and other.network_address in network)


def _blocks(policy: Object) -> Iterator[tuple[str, Object]]:
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for position, rule in enumerate(field(policy, f"spec.{direction}", ())):
            for index, peer in enumerate(rule.get(peers) or ()):
                if peer.get("ipBlock") is not None:
                    yield f"spec.{direction}[{position}].{peers}[{index}].ipBlock", peer["ipBlock"]


def _policy_update_errors(new: Object, old: Object) -> Errors:
    known = {
        text for _, block in _blocks(old) for text in (block.get("cidr", ""), *(block.get("except") or ()))
    }
    return _policy_errors(new, frozenset(known))


def _policy_warnings(policy: Object, old: Object | None) -> Iterable[str]:
    for path, block in _blocks(policy):
        yield from range_warnings(block.get("cidr", ""), f"{path}.cidr")
        for position, part in enumerate(block.get("except") or ()):
            yield from range_warnings(part, f"{path}.except[{position}]")


NETWORK_POLICY = Kind(
    default=_default_policy,
    validate=_policy_errors,
    validate_update=_policy_update_errors,
    warnings=_policy_warnings,
    generation_fields=("spec",),
    columns=(
        column(
            "Pod-Selector",
            lambda obj: label_selector_text(field(obj, "spec.podSelector", {})),
            description="The pods that the policy is about.",
        ),
        AGE,
    ),
)
