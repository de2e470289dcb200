"""Types of `authentication.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.objects import Struct
from kubewright.api.values.times import Time


class BoundObjectReference(Struct):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None


class UserInfo(Struct):
    extra: dict[str, list[str]] | None = None
    groups: list[str] | None = None
    uid: str | None = None
    username: str | None = None


class SelfSubjectReviewStatus(Struct):
    user_info: UserInfo | None = None


class SelfSubjectReview(MetaObject):
    gvk = GroupVersionKind("authentication.k8s.io", "v1", "SelfSubjectReview")

    status: SelfSubjectReviewStatus | None = None


class TokenRequestSpec(Struct):
    attestations: dict[str, list[str]] | None = None
    audiences: list[str] | None = None
    bound_object_ref: BoundObjectReference | None = None
    expiration_seconds: int | None = None


class TokenRequestStatus(Struct):
    expiration_timestamp: Time | None = None
    token: str | None = None


class TokenRequest(MetaObject):
    gvk = GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")

    spec: TokenRequestSpec | None = None
    status: TokenRequestStatus | None = None


class TokenReviewSpec(Struct):
    audiences: list[str] | None = None
    token: str | None = None


class TokenReviewStatus(Struct):
    audiences: list[str] | None = None
    authenticated: bool | None = None
    error: str | None = None
    user: UserInfo | None = None


class TokenReview(MetaObject):
    gvk = GroupVersionKind("authentication.k8s.io", "v1", "TokenReview")

    spec: TokenReviewSpec | None = None
    status: TokenReviewStatus | None = None


__all__ = [
    "BoundObjectReference",
    "SelfSubjectReview",
    "SelfSubjectReviewStatus",
    "TokenRequest",
    "TokenRequestSpec",
    "TokenRequestStatus",
    "TokenReview",
    "TokenReviewSpec",
    "TokenReviewStatus",
    "UserInfo",
]
