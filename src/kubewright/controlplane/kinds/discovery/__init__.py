"""Kinds of the API group discovery.k8s.io: EndpointSlice.

- `endpoint_slice`: EndpointSlice
"""
