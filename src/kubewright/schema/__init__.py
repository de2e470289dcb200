"""Structural schemas: from Python types, and everything a schema does to an object.

A schema is OpenAPI v3 as CRDs write it. `Node` is its graph, shared by validation, apply and patches.

    SchemaVersion   one version of a resource: decode (default, prune, coerce metadata), validate, rules
    validate_crd    everything wrong with a CustomResourceDefinition; `default_crd`, `crd_warnings` beside it
    PrinterColumns, SelectableFields, ScalePaths    what a CRD version declares beside its schema
    duplicate_fields    keys that occur twice in JSON
    field_errors    constructors of field errors and paths, as Kubernetes reports them
    schema_of       the schema of a Python type (see `from_types`)

The parts can be used alone: `prune`, `drop_nulls`, `apply_defaults`, `validate_value`, `validate_lists`,
`validate_embedded`, `coerce_metadata`, `validate_metadata`.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
