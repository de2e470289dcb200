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

- `crd`: validation of CustomResourceDefinitions, and what a CRD version declares besides its schema
- `defaulting`: missing fields are set to the default of their schema, outermost first
- `duplicates`: keys that occur twice in one JSON object
- `examples`: example objects of a schema that together have every field, each with all of its kinds of values
- `field_errors`: short constructors for field errors and field paths
- `generation`: schemas from Python types
- `pruning`: unknown fields are removed and their paths returned
- `shapes`: differences between the fields of two schemas, such as those of two versions of a kind
- `structural`: A structural schema as a graph of nodes
- `validation`: validation of objects against a schema
- `version`: the compiled schema of one version of a custom resource
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
