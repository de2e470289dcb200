"""Types of `admissionregistration.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, LabelSelector, MetaObject, ObjectList
from kubewright.api.objects import Struct


class ApplyConfiguration(Struct):
    expression: str | None = None


class AuditAnnotation(Struct):
    key: str | None = None
    value_expression: str | None = None


class ExpressionWarning(Struct):
    field_ref: str | None = None
    warning: str | None = None


class JSONPatch(Struct):
    expression: str | None = None


class MatchCondition(Struct):
    expression: str | None = None
    name: str | None = None


class NamedRuleWithOperations(Struct):
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    operations: list[str] | None = None
    resource_names: list[str] | None = None
    resources: list[str] | None = None
    scope: str | None = None


class MatchResources(Struct):
    exclude_resource_rules: list[NamedRuleWithOperations] | None = None
    match_policy: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: list[NamedRuleWithOperations] | None = None


class Mutation(Struct):
    apply_configuration: ApplyConfiguration | None = None
    json_patch: JSONPatch | None = None
    patch_type: str | None = None


class ParamKind(Struct):
    api_version: str | None = None
    kind: str | None = None


class Variable(Struct):
    expression: str | None = None
    name: str | None = None


class MutatingAdmissionPolicySpec(Struct):
    failure_policy: str | None = None
    match_conditions: list[MatchCondition] | None = None
    match_constraints: MatchResources | None = None
    mutations: list[Mutation] | None = None
    param_kind: ParamKind | None = None
    reinvocation_policy: str | None = None
    variables: list[Variable] | None = None


class MutatingAdmissionPolicy(MetaObject):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy")

    spec: MutatingAdmissionPolicySpec | None = None


class ParamRef(Struct):
    name: str | None = None
    namespace: str | None = None
    parameter_not_found_action: str | None = None
    selector: LabelSelector | None = None


class MutatingAdmissionPolicyBindingSpec(Struct):
    match_resources: MatchResources | None = None
    param_ref: ParamRef | None = None
    policy_name: str | None = None


class MutatingAdmissionPolicyBinding(MetaObject):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding")

    spec: MutatingAdmissionPolicyBindingSpec | None = None


class MutatingAdmissionPolicyBindingList(ObjectList[MutatingAdmissionPolicyBinding]):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBindingList")


class MutatingAdmissionPolicyList(ObjectList[MutatingAdmissionPolicy]):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyList")


class RuleWithOperations(Struct):
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    operations: list[str] | None = None
    resources: list[str] | None = None
    scope: str | None = None


class ServiceReference(Struct):
    name: str | None = None
    namespace: str | None = None
    path: str | None = None
    port: int | None = None


class WebhookClientConfig(Struct):
    ca_bundle: bytes | None = None
    service: ServiceReference | None = None
    url: str | None = None


class MutatingWebhook(Struct):
    admission_review_versions: list[str] | None = None
    client_config: WebhookClientConfig | None = None
    failure_policy: str | None = None
    match_conditions: list[MatchCondition] | None = None
    match_policy: str | None = None
    name: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    reinvocation_policy: str | None = None
    rules: list[RuleWithOperations] | None = None
    side_effects: str | None = None
    timeout_seconds: int | None = None


class MutatingWebhookConfiguration(MetaObject):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration")

    webhooks: list[MutatingWebhook] | None = None


class MutatingWebhookConfigurationList(ObjectList[MutatingWebhookConfiguration]):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfigurationList")


class TypeChecking(Struct):
    expression_warnings: list[ExpressionWarning] | None = None


class Validation(Struct):
    expression: str | None = None
    message: str | None = None
    message_expression: str | None = None
    reason: str | None = None


class ValidatingAdmissionPolicySpec(Struct):
    audit_annotations: list[AuditAnnotation] | None = None
    failure_policy: str | None = None
    match_conditions: list[MatchCondition] | None = None
    match_constraints: MatchResources | None = None
    param_kind: ParamKind | None = None
    validations: list[Validation] | None = None
    variables: list[Variable] | None = None


class ValidatingAdmissionPolicyStatus(Struct):
    conditions: list[Condition] | None = None
    observed_generation: int | None = None
    type_checking: TypeChecking | None = None


class ValidatingAdmissionPolicy(MetaObject):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy")

    spec: ValidatingAdmissionPolicySpec | None = None
    status: ValidatingAdmissionPolicyStatus | None = None


class ValidatingAdmissionPolicyBindingSpec(Struct):
    match_resources: MatchResources | None = None
    param_ref: ParamRef | None = None
    policy_name: str | None = None
    validation_actions: list[str] | None = None


class ValidatingAdmissionPolicyBinding(MetaObject):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding")

    spec: ValidatingAdmissionPolicyBindingSpec | None = None


class ValidatingAdmissionPolicyBindingList(ObjectList[ValidatingAdmissionPolicyBinding]):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBindingList")


class ValidatingAdmissionPolicyList(ObjectList[ValidatingAdmissionPolicy]):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyList")


class ValidatingWebhook(Struct):
    admission_review_versions: list[str] | None = None
    client_config: WebhookClientConfig | None = None
    failure_policy: str | None = None
    match_conditions: list[MatchCondition] | None = None
    match_policy: str | None = None
    name: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    rules: list[RuleWithOperations] | None = None
    side_effects: str | None = None
    timeout_seconds: int | None = None


class ValidatingWebhookConfiguration(MetaObject):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration")

    webhooks: list[ValidatingWebhook] | None = None


class ValidatingWebhookConfigurationList(ObjectList[ValidatingWebhookConfiguration]):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfigurationList")


__all__ = [
    "ApplyConfiguration",
    "AuditAnnotation",
    "ExpressionWarning",
    "JSONPatch",
    "MatchCondition",
    "MatchResources",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicyBindingList",
    "MutatingAdmissionPolicyBindingSpec",
    "MutatingAdmissionPolicyList",
    "MutatingAdmissionPolicySpec",
    "MutatingWebhook",
    "MutatingWebhookConfiguration",
    "MutatingWebhookConfigurationList",
    "Mutation",
    "NamedRuleWithOperations",
    "ParamKind",
    "ParamRef",
    "RuleWithOperations",
    "ServiceReference",
    "TypeChecking",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBindingList",
    "ValidatingAdmissionPolicyBindingSpec",
    "ValidatingAdmissionPolicyList",
    "ValidatingAdmissionPolicySpec",
    "ValidatingAdmissionPolicyStatus",
    "ValidatingWebhook",
    "ValidatingWebhookConfiguration",
    "ValidatingWebhookConfigurationList",
    "Validation",
    "Variable",
    "WebhookClientConfig",
]
