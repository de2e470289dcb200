"""Types of `flowcontrol.apiserver.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList
from kubewright.api.objects import Struct, field
from kubewright.api.values.times import Time


class ExemptPriorityLevelConfiguration(Struct):
    lendable_percent: int | None = None
    nominal_concurrency_shares: int | None = None


class FlowDistinguisherMethod(Struct):
    type: str | None = None


class NonResourcePolicyRule(Struct):
    non_resource_urls: list[str] | None = field(default=None, name="nonResourceURLs")
    verbs: list[str] | None = None


class ResourcePolicyRule(Struct):
    api_groups: list[str] | None = None
    cluster_scope: bool | None = None
    namespaces: list[str] | None = None
    resources: list[str] | None = None
    verbs: list[str] | None = None


class GroupSubject(Struct):
    name: str | None = None


class ServiceAccountSubject(Struct):
    name: str | None = None
    namespace: str | None = None


class UserSubject(Struct):
    name: str | None = None


class Subject(Struct):
    group: GroupSubject | None = None
    kind: str | None = None
    service_account: ServiceAccountSubject | None = None
    user: UserSubject | None = None


class PolicyRulesWithSubjects(Struct):
    non_resource_rules: list[NonResourcePolicyRule] | None = None
    resource_rules: list[ResourcePolicyRule] | None = None
    subjects: list[Subject] | None = None


class PriorityLevelConfigurationReference(Struct):
    name: str | None = None


class FlowSchemaSpec(Struct):
    distinguisher_method: FlowDistinguisherMethod | None = None
    matching_precedence: int | None = None
    priority_level_configuration: PriorityLevelConfigurationReference | None = None
    rules: list[PolicyRulesWithSubjects] | None = None


class FlowSchemaCondition(Struct):
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class FlowSchemaStatus(Struct):
    conditions: list[FlowSchemaCondition] | None = None


class FlowSchema(MetaObject):
    gvk = GroupVersionKind("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema")

    spec: FlowSchemaSpec | None = None
    status: FlowSchemaStatus | None = None


class FlowSchemaList(ObjectList[FlowSchema]):
    gvk = GroupVersionKind("flowcontrol.apiserver.k8s.io", "v1", "FlowSchemaList")


class QueuingConfiguration(Struct):
    hand_size: int | None = None
    queue_length_limit: int | None = None
    queues: int | None = None


class LimitResponse(Struct):
    queuing: QueuingConfiguration | None = None
    type: str | None = None


class LimitedPriorityLevelConfiguration(Struct):
    borrowing_limit_percent: int | None = None
    lendable_percent: int | None = None
    limit_response: LimitResponse | None = None
    nominal_concurrency_shares: int | None = None


class PriorityLevelConfigurationSpec(Struct):
    exempt: ExemptPriorityLevelConfiguration | None = None
    limited: LimitedPriorityLevelConfiguration | None = None
    type: str | None = None


class PriorityLevelConfigurationCondition(Struct):
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class PriorityLevelConfigurationStatus(Struct):
    conditions: list[PriorityLevelConfigurationCondition] | None = None


class PriorityLevelConfiguration(MetaObject):
    gvk = GroupVersionKind("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration")

    spec: PriorityLevelConfigurationSpec | None = None
    status: PriorityLevelConfigurationStatus | None = None


class PriorityLevelConfigurationList(ObjectList[PriorityLevelConfiguration]):
    gvk = GroupVersionKind("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfigurationList")


__all__ = [
    "ExemptPriorityLevelConfiguration",
    "FlowDistinguisherMethod",
    "FlowSchema",
    "FlowSchemaCondition",
    "FlowSchemaList",
    "FlowSchemaSpec",
    "FlowSchemaStatus",
    "GroupSubject",
    "LimitResponse",
    "LimitedPriorityLevelConfiguration",
    "NonResourcePolicyRule",
    "PolicyRulesWithSubjects",
    "PriorityLevelConfiguration",
    "PriorityLevelConfigurationCondition",
    "PriorityLevelConfigurationList",
    "PriorityLevelConfigurationReference",
    "PriorityLevelConfigurationSpec",
    "PriorityLevelConfigurationStatus",
    "QueuingConfiguration",
    "ResourcePolicyRule",
    "ServiceAccountSubject",
    "Subject",
    "UserSubject",
]
