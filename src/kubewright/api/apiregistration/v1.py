"""Types of `apiregistration.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList
from kubewright.api.objects import Struct, field
from kubewright.api.values.times import Time


class ServiceReference(Struct):
    name: str | None = None
    namespace: str | None = None
    port: int | None = None


class APIServiceSpec(Struct):
    ca_bundle: bytes | None = None
    group: str | None = None
    group_priority_minimum: int | None = None
    insecure_skip_tls_verify: bool | None = field(default=None, name="insecureSkipTLSVerify")
    service: ServiceReference | None = None
    version: str | None = None
    version_priority: int | None = None


class APIServiceCondition(Struct):
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class APIServiceStatus(Struct):
    conditions: list[APIServiceCondition] | None = None


class APIService(MetaObject):
    gvk = GroupVersionKind("apiregistration.k8s.io", "v1", "APIService")

    spec: APIServiceSpec | None = None
    status: APIServiceStatus | None = None


class APIServiceList(ObjectList[APIService]):
    gvk = GroupVersionKind("apiregistration.k8s.io", "v1", "APIServiceList")


__all__ = [
    "APIService",
    "APIServiceCondition",
    "APIServiceList",
    "APIServiceSpec",
    "APIServiceStatus",
    "ServiceReference",
]
