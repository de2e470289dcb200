"""Types of `authorization.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import FieldSelectorRequirement, LabelSelectorRequirement, MetaObject
from kubewright.api.objects import Struct, field


class FieldSelectorAttributes(Struct):
    raw_selector: str | None = None
    requirements: list[FieldSelectorRequirement] | None = None


class LabelSelectorAttributes(Struct):
    raw_selector: str | None = None
    requirements: list[LabelSelectorRequirement] | None = None


class NonResourceAttributes(Struct):
    path: str | None = None
    verb: str | None = None


class ResourceAttributes(Struct):
    field_selector: FieldSelectorAttributes | None = None
    group: str | None = None
    label_selector: LabelSelectorAttributes | None = None
    name: str | None = None
    namespace: str | None = None
    resource: str | None = None
    subresource: str | None = None
    verb: str | None = None
    version: str | None = None


class SubjectAccessReviewSpec(Struct):
    extra: dict[str, list[str]] | None = None
    groups: list[str] | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    resource_attributes: ResourceAttributes | None = None
    uid: str | None = None
    user: str | None = None


class SubjectAccessReviewStatus(Struct):
    allowed: bool | None = None
    denied: bool | None = None
    evaluation_error: str | None = None
    reason: str | None = None


class LocalSubjectAccessReview(MetaObject):
    gvk = GroupVersionKind("authorization.k8s.io", "v1", "LocalSubjectAccessReview")

    spec: SubjectAccessReviewSpec | None = None
    status: SubjectAccessReviewStatus | None = None


class NonResourceRule(Struct):
    non_resource_urls: list[str] | None = field(default=None, name="nonResourceURLs")
    verbs: list[str] | None = None


class ResourceRule(Struct):
    api_groups: list[str] | None = None
    resource_names: list[str] | None = None
    resources: list[str] | None = None
    verbs: list[str] | None = None


class SelfSubjectAccessReviewSpec(Struct):
    non_resource_attributes: NonResourceAttributes | None = None
    resource_attributes: ResourceAttributes | None = None


class SelfSubjectAccessReview(MetaObject):
    gvk = GroupVersionKind("authorization.k8s.io", "v1", "SelfSubjectAccessReview")

    spec: SelfSubjectAccessReviewSpec | None = None
    status: SubjectAccessReviewStatus | None = None


class SelfSubjectRulesReviewSpec(Struct):
    namespace: str | None = None


class SubjectRulesReviewStatus(Struct):
    evaluation_error: str | None = None
    incomplete: bool | None = None
    non_resource_rules: list[NonResourceRule] | None = None
    resource_rules: list[ResourceRule] | None = None


class SelfSubjectRulesReview(MetaObject):
    gvk = GroupVersionKind("authorization.k8s.io", "v1", "SelfSubjectRulesReview")

    spec: SelfSubjectRulesReviewSpec | None = None
    status: SubjectRulesReviewStatus | None = None


class SubjectAccessReview(MetaObject):
    gvk = GroupVersionKind("authorization.k8s.io", "v1", "SubjectAccessReview")

    spec: SubjectAccessReviewSpec | None = None
    status: SubjectAccessReviewStatus | None = None


__all__ = [
    "FieldSelectorAttributes",
    "LabelSelectorAttributes",
    "LocalSubjectAccessReview",
    "NonResourceAttributes",
    "NonResourceRule",
    "ResourceAttributes",
    "ResourceRule",
    "SelfSubjectAccessReview",
    "SelfSubjectAccessReviewSpec",
    "SelfSubjectRulesReview",
    "SelfSubjectRulesReviewSpec",
    "SubjectAccessReview",
    "SubjectAccessReviewSpec",
    "SubjectAccessReviewStatus",
    "SubjectRulesReviewStatus",
]
