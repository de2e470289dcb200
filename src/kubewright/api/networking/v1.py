"""Types of `networking.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.core.v1 import TypedLocalObjectReference
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, LabelSelector, MetaObject, ObjectList
from kubewright.api.objects import Struct


class ServiceBackendPort(Struct):
    name: str | None = None
    number: int | None = None


class IngressServiceBackend(Struct):
    name: str | None = None
    port: ServiceBackendPort | None = None


class IngressBackend(Struct):
    resource: TypedLocalObjectReference | None = None
    service: IngressServiceBackend | None = None


class HTTPIngressPath(Struct):
    backend: IngressBackend | None = None
    path: str | None = None
    path_type: str | None = None


class HTTPIngressRuleValue(Struct):
    paths: list[HTTPIngressPath] | None = None


class ParentReference(Struct):
    group: str | None = None
    name: str | None = None
    namespace: str | None = None
    resource: str | None = None


class IPAddressSpec(Struct):
    parent_ref: ParentReference | None = None


class IPAddress(MetaObject):
    gvk = GroupVersionKind("networking.k8s.io", "v1", "IPAddress")

    spec: IPAddressSpec | None = None


class IPAddressList(ObjectList[IPAddress]):
    gvk = GroupVersionKind("networking.k8s.io", "v1", "IPAddressList")


class IPBlock(Struct):
    cidr: str | None = None
    except_: list[str] | None = None


class IngressRule(Struct):
    host: str | None = None
    http: HTTPIngressRuleValue | None = None


class IngressTLS(Struct):
    hosts: list[str] | None = None
    secret_name: str | None = None


class IngressSpec(Struct):
    default_backend: IngressBackend | None = None
    ingress_class_name: str | None = None
    rules: list[IngressRule] | None = None
    tls: list[IngressTLS] | None = None


class IngressPortStatus(Struct):
    error: str | None = None
    port: int | None = None
    protocol: str | None = None


class IngressLoadBalancerIngress(Struct):
    hostname: str | None = None
    ip: str | None = None
    ports: list[IngressPortStatus] | None = None


class IngressLoadBalancerStatus(Struct):
    ingress: list[IngressLoadBalancerIngress] | None = None


class IngressStatus(Struct):
    load_balancer: IngressLoadBalancerStatus | None = None


class Ingress(MetaObject):
    gvk = GroupVersionKind("networking.k8s.io", "v1", "Ingress")

    spec: IngressSpec | None = None
    status: IngressStatus | None = None


class IngressClassParametersReference(Struct):
    api_group: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    scope: str | None = None


class IngressClassSpec(Struct):
    controller: str | None = None
    parameters: IngressClassParametersReference | None = None


class IngressClass(MetaObject):
    gvk = GroupVersionKind("networking.k8s.io", "v1", "IngressClass")

    spec: IngressClassSpec | None = None


class IngressClassList(ObjectList[IngressClass]):
    gvk = GroupVersionKind("networking.k8s.io", "v1", "IngressClassList")


class IngressList(ObjectList[Ingress]):
    gvk = GroupVersionKind("networking.k8s.io", "v1", "IngressList")


class NetworkPolicyPeer(Struct):
    ip_block: IPBlock | None = None
    namespace_selector: LabelSelector | None = None
    pod_selector: LabelSelector | None = None


class NetworkPolicyPort(Struct):
    end_port: int | None = None
    port: int | str | None = None
    protocol: str | None = None


class NetworkPolicyEgressRule(Struct):
    ports: list[NetworkPolicyPort] | None = None
    to: list[NetworkPolicyPeer] | None = None


class NetworkPolicyIngressRule(Struct):
    from_: list[NetworkPolicyPeer] | None = None
    ports: list[NetworkPolicyPort] | None = None


class NetworkPolicySpec(Struct):
    egress: list[NetworkPolicyEgressRule] | None = None
    ingress: list[NetworkPolicyIngressRule] | None = None
    pod_selector: LabelSelector | None = None
    policy_types: list[str] | None = None


class NetworkPolicy(MetaObject):
    gvk = GroupVersionKind("networking.k8s.io", "v1", "NetworkPolicy")

    spec: NetworkPolicySpec | None = None


class NetworkPolicyList(ObjectList[NetworkPolicy]):
    gvk = GroupVersionKind("networking.k8s.io", "v1", "NetworkPolicyList")


class ServiceCIDRSpec(Struct):
    cidrs: list[str] | None = None


class ServiceCIDRStatus(Struct):
    conditions: list[Condition] | None = None


class ServiceCIDR(MetaObject):
    gvk = GroupVersionKind("networking.k8s.io", "v1", "ServiceCIDR")

    spec: ServiceCIDRSpec | None = None
    status: ServiceCIDRStatus | None = None


class ServiceCIDRList(ObjectList[ServiceCIDR]):
    gvk = GroupVersionKind("networking.k8s.io", "v1", "ServiceCIDRList")


__all__ = [
    "HTTPIngressPath",
    "HTTPIngressRuleValue",
    "IPAddress",
    "IPAddressList",
    "IPAddressSpec",
    "IPBlock",
    "Ingress",
    "IngressBackend",
    "IngressClass",
    "IngressClassList",
    "IngressClassParametersReference",
    "IngressClassSpec",
    "IngressList",
    "IngressLoadBalancerIngress",
    "IngressLoadBalancerStatus",
    "IngressPortStatus",
    "IngressRule",
    "IngressServiceBackend",
    "IngressSpec",
    "IngressStatus",
    "IngressTLS",
    "NetworkPolicy",
    "NetworkPolicyEgressRule",
    "NetworkPolicyIngressRule",
    "NetworkPolicyList",
    "NetworkPolicyPeer",
    "NetworkPolicyPort",
    "NetworkPolicySpec",
    "ParentReference",
    "ServiceBackendPort",
    "ServiceCIDR",
    "ServiceCIDRList",
    "ServiceCIDRSpec",
    "ServiceCIDRStatus",
]
