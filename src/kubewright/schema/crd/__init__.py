"""Validation of CustomResourceDefinitions, and what a CRD version declares besides its schema.

definition     validation of a whole CRD, defaults, warnings
schema         validation of one `openAPIV3Schema`, with list types and CEL rules
structural     whether a schema is structural
defaults       validation of default values
conversion     validation of `spec.conversion` and of webhook clients
internal_form  the internal representation that messages and paths refer to
columns        printer columns and selectable fields
scale          the paths of the scale subresource
field_paths    JSON paths of fields in rules and selectable fields

- `columns`: tables and selectable fields of custom resources, from the JSON paths that a CRD declares
- `conversion`: validation of a CRD's conversion, and of webhook client configurations, which admission
  webhooks share
- `defaults`: validation of the default values in a schema
- `definition`: validation of a CustomResourceDefinition, on create and on update
- `field_paths`: JSON paths of fields in a CRD: `.spec.replicas`, `['a-b'].c`
- `internal_form`: the internal form of a CRD, which validation uses, and how messages print parts of it
- `scale`: scale subresource of a custom resource: replica counts and selector, read and written by path
- `schema`: validation of the schema of a CRD version: allowed keywords, list and map topology, defaults and
  CEL rules
- `structural`: validation of structural schemas
"""
