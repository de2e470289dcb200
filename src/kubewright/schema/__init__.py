"""Structural schemas: from Python types, and everything a schema does to an object.

A schema is OpenAPI v3 as CRDs write it. `Node` is its graph, shared by validation, apply and patches.

    SchemaVersion   one version of a resource: decode (default, prune, coerce metadata), validate, rules
    validate_crd    everything wrong with a CustomResourceDefinition; `default_crd`, `crd_warnings` beside it
    PrinterColumns, SelectableFields, ScalePaths    what a CRD version declares beside its schema
    duplicate_fields    keys that occur twice in JSON
    fielderrors     field errors and paths in Kubernetes' words
    schema_of       the schema of a Python type (see `from_types`)

The parts can be used alone: `prune`, `drop_nulls`, `apply_defaults`, `validate_value`, `validate_lists`,
`validate_embedded`, `coerce_metadata`, `validate_metadata`.
"""

from typing import TYPE_CHECKING

from kubewright.lazy import lazy

if TYPE_CHECKING:
    from . import fielderrors
    from .check import compile_all
    from .columns import PrinterColumns, SelectableFields, human_duration
    from .compiled import Compiled
    from .correlation import Correlated
    from .crd import crd_warnings, default_crd, validate_crd, validate_crd_status
    from .defaults import apply_defaults
    from .duplicates import duplicate_fields
    from .embedded import coerce_embedded, validate_embedded
    from .from_types import Options, schema_of
    from .lists import validate_lists
    from .metadata import MetadataError, coerce_metadata, validate_metadata
    from .mistakes import DeclarationError, Mistake
    from .pruning import drop_nulls, prune
    from .rules import RuleRun
    from .scale import PathError, ScalePaths
    from .structural import NO_DEFAULT, Node
    from .validation import validate_value
    from .version import SchemaVersion, TooDeepError, Verdict

__getattr__, __dir__ = lazy(
    __name__,
    {
        "check": "compile_all",
        "columns": "PrinterColumns SelectableFields human_duration",
        "compiled": "Compiled",
        "correlation": "Correlated",
        "crd": "crd_warnings default_crd validate_crd validate_crd_status",
        "defaults": "apply_defaults",
        "duplicates": "duplicate_fields",
        "embedded": "coerce_embedded validate_embedded",
        "from_types": "Options schema_of",
        "lists": "validate_lists",
        "metadata": "MetadataError coerce_metadata validate_metadata",
        "mistakes": "DeclarationError Mistake",
        "pruning": "drop_nulls prune",
        "rules": "RuleRun",
        "scale": "PathError ScalePaths",
        "structural": "NO_DEFAULT Node",
        "validation": "validate_value",
        "version": "SchemaVersion TooDeepError Verdict",
    },
)

__all__ = [
    "NO_DEFAULT",
    "Compiled",
    "Correlated",
    "DeclarationError",
    "MetadataError",
    "Mistake",
    "Node",
    "Options",
    "PathError",
    "PrinterColumns",
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
    "fielderrors",
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
