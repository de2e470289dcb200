"""Types of `apiextensions.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from typing import Any

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList
from kubewright.api.objects import Struct, field
from kubewright.api.values.times import Time


class CustomResourceColumnDefinition(Struct):
    description: str | None = None
    format: str | None = None
    json_path: str | None = None
    name: str | None = None
    priority: int | None = None
    type: str | None = None


class ServiceReference(Struct):
    name: str | None = None
    namespace: str | None = None
    path: str | None = None
    port: int | None = None


class WebhookClientConfig(Struct):
    ca_bundle: bytes | None = None
    service: ServiceReference | None = None
    url: str | None = None


class WebhookConversion(Struct):
    client_config: WebhookClientConfig | None = None
    conversion_review_versions: list[str] | None = None


class CustomResourceConversion(Struct):
    strategy: str | None = None
    webhook: WebhookConversion | None = None


class CustomResourceDefinitionNames(Struct):
    categories: list[str] | None = None
    kind: str | None = None
    list_kind: str | None = None
    plural: str | None = None
    short_names: list[str] | None = None
    singular: str | None = None


class CustomResourceSubresourceScale(Struct):
    label_selector_path: str | None = None
    spec_replicas_path: str | None = None
    status_replicas_path: str | None = None


class CustomResourceSubresourceStatus(Struct):
    pass


class CustomResourceSubresources(Struct):
    scale: CustomResourceSubresourceScale | None = None
    status: CustomResourceSubresourceStatus | None = None


class ExternalDocumentation(Struct):
    description: str | None = None
    url: str | None = None


class ValidationRule(Struct):
    field_path: str | None = None
    message: str | None = None
    message_expression: str | None = None
    optional_old_self: bool | None = None
    reason: str | None = None
    rule: str | None = None


class JSONSchemaProps(Struct):
    ref: str | None = field(default=None, name="$ref")
    schema: str | None = field(default=None, name="$schema")
    additional_items: "JSONSchemaProps | bool | None" = None
    additional_properties: "JSONSchemaProps | bool | None" = None
    all_of: "list[JSONSchemaProps] | None" = None
    any_of: "list[JSONSchemaProps] | None" = None
    default: Any = None
    definitions: "dict[str, JSONSchemaProps] | None" = None
    dependencies: "dict[str, JSONSchemaProps | list[str]] | None" = None
    description: str | None = None
    enum: list[Any] | None = None
    example: Any = None
    exclusive_maximum: bool | None = None
    exclusive_minimum: bool | None = None
    external_docs: ExternalDocumentation | None = None
    format: str | None = None
    id: str | None = None
    items: "JSONSchemaProps | list[JSONSchemaProps] | None" = None
    max_items: int | None = None
    max_length: int | None = None
    max_properties: int | None = None
    maximum: float | None = None
    min_items: int | None = None
    min_length: int | None = None
    min_properties: int | None = None
    minimum: float | None = None
    multiple_of: float | None = None
    not_: "JSONSchemaProps | None" = None
    nullable: bool | None = None
    one_of: "list[JSONSchemaProps] | None" = None
    pattern: str | None = None
    pattern_properties: "dict[str, JSONSchemaProps] | None" = None
    properties: "dict[str, JSONSchemaProps] | None" = None
    required: list[str] | None = None
    title: str | None = None
    type: str | None = None
    unique_items: bool | None = None
    x_kubernetes_embedded_resource: bool | None = field(default=None, name="x-kubernetes-embedded-resource")
    x_kubernetes_int_or_string: bool | None = field(default=None, name="x-kubernetes-int-or-string")
    x_kubernetes_list_map_keys: list[str] | None = field(default=None, name="x-kubernetes-list-map-keys")
    x_kubernetes_list_type: str | None = field(default=None, name="x-kubernetes-list-type")
    x_kubernetes_map_type: str | None = field(default=None, name="x-kubernetes-map-type")
    x_kubernetes_preserve_unknown_fields: bool | None = field(
        default=None, name="x-kubernetes-preserve-unknown-fields"
    )
    x_kubernetes_validations: list[ValidationRule] | None = field(
        default=None, name="x-kubernetes-validations"
    )


class CustomResourceValidation(Struct):
    openapi_v3_schema: JSONSchemaProps | None = field(default=None, name="openAPIV3Schema")


class SelectableField(Struct):
    json_path: str | None = None


class CustomResourceDefinitionVersion(Struct):
    additional_printer_columns: list[CustomResourceColumnDefinition] | None = None
    deprecated: bool | None = None
    deprecation_warning: str | None = None
    name: str | None = None
    schema: CustomResourceValidation | None = None
    selectable_fields: list[SelectableField] | None = None
    served: bool | None = None
    storage: bool | None = None
    subresources: CustomResourceSubresources | None = None


class CustomResourceDefinitionSpec(Struct):
    conversion: CustomResourceConversion | None = None
    group: str | None = None
    names: CustomResourceDefinitionNames | None = None
    preserve_unknown_fields: bool | None = None
    scope: str | None = None
    versions: list[CustomResourceDefinitionVersion] | None = None


class CustomResourceDefinitionCondition(Struct):
    last_transition_time: Time | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class CustomResourceDefinitionStatus(Struct):
    accepted_names: CustomResourceDefinitionNames | None = None
    conditions: list[CustomResourceDefinitionCondition] | None = None
    observed_generation: int | None = None
    stored_versions: list[str] | None = None


class CustomResourceDefinition(MetaObject):
    gvk = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")

    spec: CustomResourceDefinitionSpec | None = None
    status: CustomResourceDefinitionStatus | None = None


class CustomResourceDefinitionList(ObjectList[CustomResourceDefinition]):
    gvk = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinitionList")


__all__ = [
    "CustomResourceColumnDefinition",
    "CustomResourceConversion",
    "CustomResourceDefinition",
    "CustomResourceDefinitionCondition",
    "CustomResourceDefinitionList",
    "CustomResourceDefinitionNames",
    "CustomResourceDefinitionSpec",
    "CustomResourceDefinitionStatus",
    "CustomResourceDefinitionVersion",
    "CustomResourceSubresourceScale",
    "CustomResourceSubresourceStatus",
    "CustomResourceSubresources",
    "CustomResourceValidation",
    "ExternalDocumentation",
    "JSONSchemaProps",
    "SelectableField",
    "ServiceReference",
    "ValidationRule",
    "WebhookClientConfig",
    "WebhookConversion",
]
