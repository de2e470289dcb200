"""Kinds of the API group resource.k8s.io: DeviceClass, ResourceClaim and its template, ResourceSlice.

- `claim_spec`: defaults and validation of the spec of a ResourceClaim, also in a ResourceClaimTemplate
- `device_class`: DeviceClass
- `resource_claim`: ResourceClaim and ResourceClaimTemplate
- `resource_slice`: ResourceSlice: validation of the devices and shared counters that a driver publishes
"""
