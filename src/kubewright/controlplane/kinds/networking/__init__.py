"""Kinds of the API group networking.k8s.io: Ingress, IngressClass, NetworkPolicy, IPAddress, ServiceCIDR.

- `ingress`: ingress
- `ingress_class`: IngressClass
- `ip_address`: IPAddress and ServiceCIDR
- `network_policy`: NetworkPolicy
"""
