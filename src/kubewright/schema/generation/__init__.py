"""Schemas from Python types.

errors         problems in declarations, raised together as `DeclarationError`
from_types     the schema of a Python type
from_builtin   the schema of a built-in Kubernetes type inside a custom resource
struct_fields  fields of a struct with resolved types
source         field docs and line numbers from source files
topology       checks of list types (set, map)
descriptions   shortening descriptions

- `errors`: problems in type declarations, collected and raised together
- `from_builtin`: schemas of built-in types embedded in a custom resource
- `from_types`: structural OpenAPI v3 schemas from Python types, as CustomResourceDefinitions contain them
- `protobuf_messages`: protobuf messages of Python types, from the field numbers that they declare
- `source`: field docs and line numbers of a class, read from its source file
- `struct_fields`: fields of a struct class with resolved types, wire names and defaults
- `topology`: checks of list topology: items of sets must be comparable, keys of list maps required
"""
