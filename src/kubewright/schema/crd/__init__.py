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
"""
