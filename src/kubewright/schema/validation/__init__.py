"""Validation of objects against a schema.

values       JSON schema keywords
rules        CEL rules (`x-kubernetes-validations`)
lists        duplicates in sets and list maps
metadata     coercion and validation of ObjectMeta
embedded     embedded resources
formats      string formats
fast_check   one pass that decides which of the others are needed
compiled     keywords of a node, compiled once
correlation  pairs of new and old values
cel_types    CEL types of schema nodes
"""
