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

from typing import TYPE_CHECKING

from kubewright.lazy import lazy

if TYPE_CHECKING:
    from . import field_errors
    from .crd.columns import PrinterColumns, SelectableFields, human_duration
    from .crd.definition import crd_warnings, default_crd, validate_crd, validate_crd_status
    from .crd.scale import PathError, ScalePaths
    from .defaulting import apply_defaults
    from .duplicates import duplicate_fields
    from .generation.errors import DeclarationError, Problem
    from .generation.from_types import Options, schema_of
    from .pruning import drop_nulls, prune
    from .structural import NO_DEFAULT, Node
    from .validation.compiled import Compiled
    from .validation.correlation import Correlated
    from .validation.embedded import coerce_embedded, validate_embedded
    from .validation.fast_check import compile_all
    from .validation.lists import validate_lists
    from .validation.metadata import MetadataError, coerce_metadata, validate_metadata
    from .validation.rules import RuleRun
    from .validation.values import validate_value
    from .version import SchemaVersion, TooDeepError, Verdict

__getattr__, __dir__ = lazy(
    __name__,
    {
        "crd.columns": "PrinterColumns SelectableFields human_duration",
        "crd.definition": "crd_warnings default_crd validate_crd validate_crd_status",
        "crd.scale": "PathError ScalePaths",
        "defaulting": "apply_defaults",
        "duplicates": "duplicate_fields",
        "generation.errors": "DeclarationError Problem",
        "generation.from_types": "Options schema_of",
        "pruning": "drop_nulls prune",
        "structural": "NO_DEFAULT Node",
        "validation.compiled": "Compiled",
        "validation.correlation": "Correlated",
        "validation.embedded": "coerce_embedded validate_embedded",
        "validation.fast_check": "compile_all",
        "validation.lists": "validate_lists",
        "validation.metadata": "MetadataError coerce_metadata validate_metadata",
        "validation.rules": "RuleRun",
        "validation.values": "validate_value",
        "version": "SchemaVersion TooDeepError Verdict",
    },
)

__all__ = [
    "NO_DEFAULT",
    "Compiled",
    "Correlated",
    "DeclarationError",
    "MetadataError",
    "Node",
    "Options",
    "PathError",
    "PrinterColumns",
    "Problem",
    "RuleRun",
    "ScalePaths",
    "SchemaVersion",
    "SelectableFields",
    "TooDeepError",
    "Verdict",
    "apply_defaults",
    "coerce_embedded",
    "coerce_metadata",
    "compile_all",
    "crd_warnings",
    "default_crd",
    "drop_nulls",
    "duplicate_fields",
    "field_errors",
    "human_duration",
    "prune",
    "schema_of",
    "validate_crd",
    "validate_crd_status",
    "validate_embedded",
    "validate_lists",
    "validate_metadata",
    "validate_value",
]
