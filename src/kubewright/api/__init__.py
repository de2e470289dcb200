"""API types and machinery: kinds, metadata, codecs, markers, selectors, quantities, errors.

    @resource(group="webapp.example.com", version="v1")
    class Guestbook(CustomResource[GuestbookSpec, GuestbookStatus]):
        ...

    guestbook = decode(body, Guestbook)
    set_condition(guestbook.status, Condition(type="Ready", status="True", reason="Running"))

Every name for users can be imported from this package; its module is loaded at first use.

- `annotations`: annotations of classes while they are created and afterwards, on every supported Python
- `apps`, `core`, `batch`, ...: types of the built-in kinds, a package for each API group, such as `apps.v1`
- `apply_order`: the order in which the objects of a set are applied, so that each finds what it depends on
- `builtin`: built-in resources of Kubernetes: names, schemas, descriptions and encodings, loaded at first use
- `conditions`: conditions of an object, one per condition type
- `constructor_errors`: explains errors of constructors: `ConfigMap(date=...)` names the class, and suggests
  `data`
- `declaring`: declarations of custom resources, and their checks
- `encoding`: JSON and CBOR of objects, and limits of YAML
- `errors`: errors of API requests, one class per Status reason
- `field_errors`: validation errors of fields, with the wording of Kubernetes
- `finalizers`: names in the metadata of an object that delay its removal until they are removed
- `gvk`: names of kinds and resources: group, version, kind, resource
- `kubernetes_version`: versions of Kubernetes, and what each of them serves
- `markers`: schema information that a Python type does not carry
- `meta`: types of `meta/v1`: object metadata, lists, conditions, label selectors, status, options
- `objects`: base classes of API types: structs with snake_case fields in Python and camelCase fields in JSON
- `owners`: owner references
- `partial_objects`: some fields of a class and no others, for server-side apply
- `presence`: which fields of a struct were set, independent of their values
- `redaction`: remove the values of Secrets from objects that are shown or logged
- `scheme`: mapping between Python types and kinds
- `selectors`: selectors of objects and paths of fields
- `unstructured`: `Unstructured`: an object of any kind as a dict
- `values`: values in fields: quantities, times, names, schedules
"""

from kubewright.lazy import attach_stub

_INTERNAL = {
    "declaring.declarations": (
        "Declaration",
        "DeclarationProvider",
        "ResourceInfo",
        "declarations_on",
        "is_resource",
        "pluralize",
        "resource_info",
        "webhook_path",
    ),
    "encoding.codec": ("decoder", "loads"),
    "finalizers": ("HasMetadata",),
    "markers": ("class_markers",),
    "objects": ("copy_value", "set_base"),
    "selectors.field_selectors": ("FieldTerm",),
    "selectors.label_selectors": ("check_label_selector", "check_labels", "requirement_of"),
    "values.names": (
        "MAX_GENERATED_BASE",
        "SUFFIX_ALPHABET",
        "SUFFIX_LENGTH",
        "check_c_identifier",
        "check_env_name",
        "check_http_header_name",
        "check_path_segment",
        "check_percent",
        "check_wildcard_subdomain",
        "random_suffix",
    ),
    "values.raw_object": ("RawObjectMarker",),
    "values.times": ("format_micro_time",),
}
"""Former exports of this package, by module; they are for modules of Kubewright."""

__getattr__, __dir__ = attach_stub(
    __name__, renamed={name: f"{module}.{name}" for module, names in _INTERNAL.items() for name in names}
)
