"""Kinds of the API group networking.k8s.io: Ingress, IngressClass, NetworkPolicy, IPAddress, ServiceCIDR."""
