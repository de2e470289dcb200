"""The words that everything else is said in: objects and their parts, names, selectors, errors.

In layers, lowest first:

- `gvk`, `model`, `meta`, `times`, `quantity`, `raw`, `int_or_string`: what objects consist of
- `codec`, `scheme`: between bytes and objects; `unstructured`, `partials`: objects without a class
- `markers`, `declare`: how you describe your own kinds
- `names`, `selectors`, `fields`, `jsonpath`, `paths`: small languages
- `conditions`, `owners`, `finalizers`: the habits of controllers
- `errors`, `field_errors`: what goes wrong
- one package per API group (`apps.v1`, `core.v1`, ...): the built-in kinds; `builtin`: what is served of them

Every public name can be imported from here; its module is loaded at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .codec import (
        DecodeError,
        ObjectHeader,
        RawList,
        decode,
        decoder,
        encode,
        from_plain,
        loads,
        to_plain,
    )
    from .conditions import (
        get_condition,
        has_condition,
        is_condition_false,
        is_condition_true,
        remove_condition,
        set_condition,
    )
    from .declare import (
        Column,
        Declaration,
        Declares,
        MatchCondition,
        Rbac,
        ResourceInfo,
        Scale,
        Skip,
        Webhook,
        WebhookConfiguration,
        WebhookConversion,
        declared_on,
        declares,
        is_resource,
        pluralize,
        resource,
        resource_info,
        webhook_path,
    )
    from .errors import (
        AlreadyExists,
        APIError,
        BadRequest,
        Conflict,
        Expired,
        Forbidden,
        Gone,
        InternalError,
        Invalid,
        MethodNotAllowed,
        NotAcceptable,
        NotFound,
        RequestEntityTooLarge,
        ServerTimeout,
        ServiceUnavailable,
        StoreReadError,
        Timeout,
        TooManyRequests,
        Unauthorized,
        UnsupportedMediaType,
    )
    from .field_errors import FieldError
    from .fields import FieldSelector, FieldTerm, field_selector, parse_field_selector
    from .finalizers import (
        FinalizerError,
        HasMetadata,
        add_finalizer,
        has_finalizer,
        is_deleting,
        remove_finalizer,
    )
    from .gvk import (
        GroupKind,
        GroupResource,
        GroupVersion,
        GroupVersionKind,
        GroupVersionResource,
        version_priority,
    )
    from .int_or_string import IntOrString, is_percentage, parse_int_or_string, scaled_value
    from .jsonpath import JSONPath, JSONPathError
    from .markers import (
        AsIntOrString,
        AtLeastOneOf,
        AtMostOneOf,
        Atomic,
        Cel,
        Default,
        Description,
        EmbeddedResource,
        Enum,
        ExactlyOneOf,
        Example,
        ExternalDocs,
        Float,
        Format,
        Ge,
        Gt,
        Immutable,
        Int32,
        Int64,
        Le,
        ListMap,
        ListSet,
        ListType,
        LocalDefault,
        Lt,
        MapType,
        Marker,
        MarkerError,
        MaxDescription,
        MaxItems,
        MaxLen,
        MaxProperties,
        MinItems,
        MinLen,
        MinProperties,
        MultipleOf,
        Nullable,
        Pattern,
        PreserveUnknownFields,
        Required,
        Schemaless,
        StructType,
        Title,
        TypeOverride,
        UniqueItems,
        class_markers,
        mark,
    )
    from .meta import (
        APIStatus,
        Condition,
        CustomResource,
        DeleteOptions,
        LabelSelector,
        LabelSelectorRequirement,
        ListMeta,
        ManagedFieldsEntry,
        MetaObject,
        ObjectList,
        ObjectMeta,
        ObjectReference,
        OwnerReference,
        PartialObjectMetadata,
        Preconditions,
        StatusCause,
        StatusDetails,
    )
    from .model import Object, Spec, Status, Struct, base_of, copy_value, field, set_base
    from .names import (
        MAX_GENERATED_BASE,
        SUFFIX_ALPHABET,
        SUFFIX_LENGTH,
        check_c_identifier,
        check_config_key,
        check_dns_1035_label,
        check_dns_label,
        check_dns_subdomain,
        check_env_name,
        check_http_header_name,
        check_label_value,
        check_path_segment,
        check_percent,
        check_port_name,
        check_port_number,
        check_qualified_name,
        check_wildcard_subdomain,
        generate_name,
        random_suffix,
    )
    from .owners import (
        AlreadyOwnedError,
        OwnerError,
        controller_of,
        has_owner_reference,
        is_controlled_by,
        owner_reference,
        remove_owner_reference,
        set_controller_reference,
        set_owner_reference,
    )
    from .partials import Partial, PartialError, partial
    from .paths import SimplePath, nested_delete, nested_get, nested_set
    from .quantity import Quantity, QuantityError
    from .raw import RawObject, RawObjectMarker
    from .scheme import Scheme, SchemeError, UnknownKindError
    from .selectors import (
        EVERYTHING,
        NOTHING,
        Requirement,
        Selector,
        SelectorError,
        check_label_selector,
        check_labels,
        parse_selector,
        requirement_of,
        selector_from_labels,
        selector_of,
        to_label_selector,
    )
    from .times import Duration, MicroTime, Time, format_micro_time, format_time, now, now_micro, parse_time
    from .unstructured import Unstructured

_NAMES = {
    "codec": "DecodeError ObjectHeader RawList decode decoder encode from_plain loads to_plain",
    "conditions": (
        "get_condition has_condition is_condition_false is_condition_true remove_condition set_condition"
    ),
    "declare": (
        "Column Declaration Declares MatchCondition Rbac ResourceInfo Scale Skip Webhook "
        "WebhookConfiguration WebhookConversion declared_on declares is_resource pluralize resource "
        "resource_info webhook_path"
    ),
    "errors": (
        "APIError AlreadyExists BadRequest Conflict Expired Forbidden Gone InternalError Invalid "
        "MethodNotAllowed NotAcceptable NotFound RequestEntityTooLarge ServerTimeout ServiceUnavailable "
        "StoreReadError Timeout TooManyRequests Unauthorized UnsupportedMediaType"
    ),
    "field_errors": "FieldError",
    "fields": "FieldSelector FieldTerm field_selector parse_field_selector",
    "finalizers": "FinalizerError HasMetadata add_finalizer has_finalizer is_deleting remove_finalizer",
    "gvk": "GroupKind GroupResource GroupVersion GroupVersionKind GroupVersionResource version_priority",
    "int_or_string": "IntOrString is_percentage parse_int_or_string scaled_value",
    "jsonpath": "JSONPath JSONPathError",
    "markers": (
        "AsIntOrString AtLeastOneOf AtMostOneOf Atomic Cel Default Description EmbeddedResource Enum "
        "ExactlyOneOf Example ExternalDocs Float Format Ge Gt Immutable Int32 Int64 Le ListMap ListSet "
        "ListType LocalDefault Lt MapType Marker MarkerError MaxDescription MaxItems MaxLen "
        "MaxProperties MinItems MinLen MinProperties MultipleOf Nullable Pattern PreserveUnknownFields "
        "Required Schemaless StructType Title TypeOverride UniqueItems class_markers mark"
    ),
    "meta": (
        "APIStatus Condition CustomResource DeleteOptions LabelSelector LabelSelectorRequirement "
        "ListMeta ManagedFieldsEntry MetaObject ObjectList ObjectMeta ObjectReference OwnerReference "
        "PartialObjectMetadata Preconditions StatusCause StatusDetails"
    ),
    "model": "Object Spec Status Struct base_of copy_value field set_base",
    "names": (
        "MAX_GENERATED_BASE SUFFIX_ALPHABET SUFFIX_LENGTH check_c_identifier check_config_key "
        "check_dns_1035_label check_dns_label check_dns_subdomain check_env_name check_http_header_name "
        "check_label_value check_path_segment check_percent check_port_name check_port_number "
        "check_qualified_name check_wildcard_subdomain generate_name random_suffix"
    ),
    "owners": (
        "AlreadyOwnedError OwnerError controller_of has_owner_reference is_controlled_by owner_reference "
        "remove_owner_reference set_controller_reference set_owner_reference"
    ),
    "partials": "Partial PartialError partial",
    "paths": "SimplePath nested_delete nested_get nested_set",
    "quantity": "Quantity QuantityError",
    "raw": "RawObject RawObjectMarker",
    "scheme": "Scheme SchemeError UnknownKindError",
    "selectors": (
        "EVERYTHING NOTHING Requirement Selector SelectorError check_label_selector check_labels "
        "parse_selector requirement_of selector_from_labels selector_of to_label_selector"
    ),
    "times": "Duration MicroTime Time format_micro_time format_time now now_micro parse_time",
    "unstructured": "Unstructured",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


__all__ = [
    "EVERYTHING",
    "MAX_GENERATED_BASE",
    "NOTHING",
    "SUFFIX_ALPHABET",
    "SUFFIX_LENGTH",
    "APIError",
    "APIStatus",
    "AlreadyExists",
    "AlreadyOwnedError",
    "AsIntOrString",
    "AtLeastOneOf",
    "AtMostOneOf",
    "Atomic",
    "BadRequest",
    "Cel",
    "Column",
    "Condition",
    "Conflict",
    "CustomResource",
    "Declaration",
    "Declares",
    "DecodeError",
    "Default",
    "DeleteOptions",
    "Description",
    "Duration",
    "EmbeddedResource",
    "Enum",
    "ExactlyOneOf",
    "Example",
    "Expired",
    "ExternalDocs",
    "FieldError",
    "FieldSelector",
    "FieldTerm",
    "FinalizerError",
    "Float",
    "Forbidden",
    "Format",
    "Ge",
    "Gone",
    "GroupKind",
    "GroupResource",
    "GroupVersion",
    "GroupVersionKind",
    "GroupVersionResource",
    "Gt",
    "HasMetadata",
    "Immutable",
    "Int32",
    "Int64",
    "IntOrString",
    "InternalError",
    "Invalid",
    "JSONPath",
    "JSONPathError",
    "LabelSelector",
    "LabelSelectorRequirement",
    "Le",
    "ListMap",
    "ListMeta",
    "ListSet",
    "ListType",
    "LocalDefault",
    "Lt",
    "ManagedFieldsEntry",
    "MapType",
    "Marker",
    "MarkerError",
    "MatchCondition",
    "MaxDescription",
    "MaxItems",
    "MaxLen",
    "MaxProperties",
    "MetaObject",
    "MethodNotAllowed",
    "MicroTime",
    "MinItems",
    "MinLen",
    "MinProperties",
    "MultipleOf",
    "NotAcceptable",
    "NotFound",
    "Nullable",
    "Object",
    "ObjectHeader",
    "ObjectList",
    "ObjectMeta",
    "ObjectReference",
    "OwnerError",
    "OwnerReference",
    "Partial",
    "PartialError",
    "PartialObjectMetadata",
    "Pattern",
    "Preconditions",
    "PreserveUnknownFields",
    "Quantity",
    "QuantityError",
    "RawList",
    "RawObject",
    "RawObjectMarker",
    "Rbac",
    "RequestEntityTooLarge",
    "Required",
    "Requirement",
    "ResourceInfo",
    "Scale",
    "Schemaless",
    "Scheme",
    "SchemeError",
    "Selector",
    "SelectorError",
    "ServerTimeout",
    "ServiceUnavailable",
    "SimplePath",
    "Skip",
    "Spec",
    "Status",
    "StatusCause",
    "StatusDetails",
    "StoreReadError",
    "Struct",
    "StructType",
    "Time",
    "Timeout",
    "Title",
    "TooManyRequests",
    "TypeOverride",
    "Unauthorized",
    "UniqueItems",
    "UnknownKindError",
    "Unstructured",
    "UnsupportedMediaType",
    "Webhook",
    "WebhookConfiguration",
    "WebhookConversion",
    "add_finalizer",
    "base_of",
    "check_c_identifier",
    "check_config_key",
    "check_dns_1035_label",
    "check_dns_label",
    "check_dns_subdomain",
    "check_env_name",
    "check_http_header_name",
    "check_label_selector",
    "check_label_value",
    "check_labels",
    "check_path_segment",
    "check_percent",
    "check_port_name",
    "check_port_number",
    "check_qualified_name",
    "check_wildcard_subdomain",
    "class_markers",
    "controller_of",
    "copy_value",
    "declared_on",
    "declares",
    "decode",
    "decoder",
    "encode",
    "field",
    "field_selector",
    "format_micro_time",
    "format_time",
    "from_plain",
    "generate_name",
    "get_condition",
    "has_condition",
    "has_finalizer",
    "has_owner_reference",
    "is_condition_false",
    "is_condition_true",
    "is_controlled_by",
    "is_deleting",
    "is_percentage",
    "is_resource",
    "loads",
    "mark",
    "nested_delete",
    "nested_get",
    "nested_set",
    "now",
    "now_micro",
    "owner_reference",
    "parse_field_selector",
    "parse_int_or_string",
    "parse_selector",
    "parse_time",
    "partial",
    "pluralize",
    "random_suffix",
    "remove_condition",
    "remove_finalizer",
    "remove_owner_reference",
    "requirement_of",
    "resource",
    "resource_info",
    "scaled_value",
    "selector_from_labels",
    "selector_of",
    "set_base",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
    "to_label_selector",
    "to_plain",
    "version_priority",
    "webhook_path",
]
