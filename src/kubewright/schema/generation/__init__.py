"""Schemas from Python types.

errors         problems in declarations, raised together as `DeclarationError`
from_types     the schema of a Python type
from_builtin   the schema of a built-in Kubernetes type inside a custom resource
struct_fields  fields of a struct with resolved types
source         field docs and line numbers from source files
topology       checks of list types (set, map)
descriptions   shortening descriptions
"""
