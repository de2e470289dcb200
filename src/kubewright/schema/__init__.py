"""Structural schemas: generation from Python types, defaulting, pruning, validation, CEL rules, CRD
validation.

    schema = SchemaVersion(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    unknown = schema.decode(obj)            # default, prune, coerce metadata
    verdict = schema.validate(obj, old)     # errors and warnings

A schema is OpenAPI v3 as in a CRD. `Node` is its graph, shared by validation, apply and patches.

    SchemaVersion   one version of a resource: decode (default, prune, coerce metadata), validate, rules
    validate_crd    validation of a CustomResourceDefinition; also `default_crd`, `crd_warnings`
    PrinterColumns, SelectableFields, ScalePaths    table columns, field selectors, scale
    duplicate_fields    keys that occur twice in JSON
    field_errors    constructors of field errors and paths, as Kubernetes reports them
    schema_of       the schema of a Python type (see `from_types`)

The parts can be used alone: `prune`, `drop_nulls`, `apply_defaults`, `validate_value`, `validate_lists`,
`validate_embedded`, `coerce_metadata`, `validate_metadata`.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
