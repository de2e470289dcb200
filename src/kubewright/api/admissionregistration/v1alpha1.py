"""Types of `admissionregistration.k8s.io/v1alpha1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import LabelSelector, MetaObject, ObjectList
from kubewright.api.objects import Struct


class ApplyConfiguration(Struct):
    expression: str | None = None


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
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1alpha1", "MutatingAdmissionPolicy")

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
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1alpha1", "MutatingAdmissionPolicyBinding")

    spec: MutatingAdmissionPolicyBindingSpec | None = None


class MutatingAdmissionPolicyBindingList(ObjectList[MutatingAdmissionPolicyBinding]):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1alpha1", "MutatingAdmissionPolicyBindingList")


class MutatingAdmissionPolicyList(ObjectList[MutatingAdmissionPolicy]):
    gvk = GroupVersionKind("admissionregistration.k8s.io", "v1alpha1", "MutatingAdmissionPolicyList")


__all__ = [
    "ApplyConfiguration",
    "JSONPatch",
    "MatchCondition",
    "MatchResources",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicyBindingList",
    "MutatingAdmissionPolicyBindingSpec",
    "MutatingAdmissionPolicyList",
    "MutatingAdmissionPolicySpec",
    "Mutation",
    "NamedRuleWithOperations",
    "ParamKind",
    "ParamRef",
    "Variable",
]
