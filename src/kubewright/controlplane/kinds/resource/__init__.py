"""Kinds of the API group resource.k8s.io: DeviceClass, ResourceClaim and its template, ResourceSlice."""
