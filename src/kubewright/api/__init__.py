"""API types and machinery: kinds, metadata, codecs, markers, selectors, quantities, errors.

    @resource(group="webapp.example.com", version="v1")
    class Guestbook(CustomResource[GuestbookSpec, GuestbookStatus]):
        ...

    guestbook = decode(body, Guestbook)
    set_condition(guestbook.status, Condition(type="Ready", status="True", reason="Running"))

Modules, each of which only uses modules before it:

- `gvk`, `presence`, `objects`, `meta`, `times`, `quantity`, `raw_object`, `int_or_string`: parts of objects
- `codec`: JSON to objects and back; `cbor`: CBOR to plain data and back
- `unstructured`, `partial_objects`: objects without a class of their own
- `markers`, `declarations`, `keywords`, `class_checks`: declaring custom resources
- `scheme`: Python types by kind
- `names`, `label_selectors`, `field_selectors`, `jsonpath`, `field_paths`: names, selectors and paths
- `conditions`, `owners`, `finalizers`: helpers for controllers
- `errors`, `field_errors`, `go_format`: errors with the wording of kube-apiserver
- `apps.v1`, `core.v1`, ...: types of the built-in kinds, one package per API group
- `builtin_resources`, `builtin_schemas`, `builtin_openapi`, `builtin_descriptions`, `typed_codec`,
  `wire_messages`: built-in resources, their schemas, descriptions and encodings

Every public name can be imported from this package; its module is loaded at first use.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
