"""Scale subresource of a custom resource: replica counts and selector, read and written by path."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kubewright.api.field_errors import FieldError
from kubewright.api.values.go_format import marshal_json
from kubewright.schema import field_errors as fe

MAX_REPLICAS: Final = (1 << 31) - 1
_GO_TYPES: Final = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    type(None): "<nil>",
}


class PathError(ValueError):
    """A value on a path has an unexpected type."""


class ScalePaths(NamedTuple):
    """The paths that `subresources.scale` of a CRD version declares: `.spec.replicas` and so on."""

    spec_replicas: str
    status_replicas: str
    selector: str | None = None

    @classmethod
    def of(cls, scale: dict[str, Any]) -> ScalePaths:
        """Create from `subresources.scale` of a CRD version."""
        return cls(
            scale.get("specReplicasPath") or "",
            scale.get("statusReplicasPath") or "",
            scale.get("labelSelectorPath"),
        )

    def get_replicas(self, obj: dict[str, Any]) -> int | None:
        """Return the desired replicas, or `None` if not set."""
        return _integer(obj, self.spec_replicas)

    def set_replicas(self, obj: dict[str, Any], replicas: int) -> None:
        """Set the desired replicas; create missing parent objects."""
        fields = _fields(self.spec_replicas)
        place = obj
        for name in fields[:-1]:
            place = place.setdefault(name, {})
            if type(place) is not dict:
                raise PathError(
                    f"value cannot be set because .{'.'.join(fields)} is not a map[string]interface{{}}"
                )
        place[fields[-1]] = replicas

    def get_status_replicas(self, obj: dict[str, Any]) -> int:
        """Return the observed replicas; 0 if not set."""
        return _integer(obj, self.status_replicas) or 0

    def get_selector(self, obj: dict[str, Any]) -> str:
        """Return the label selector of the pods as text; empty if not set."""
        if not self.selector:
            return ""
        value = _lookup(obj, self.selector)
        if value is not None and type(value) is not str:
            raise _accessor_error(self.selector, value, "string")
        return value or ""

    def errors(self, obj: dict[str, Any]) -> list[FieldError]:
        """Return the errors of replicas and selector."""
        return _replica_errors(obj, self.spec_replicas) + self.status_errors(obj)

    def status_errors(self, obj: dict[str, Any]) -> list[FieldError]:
        """Return the errors of the status part."""
        errors = _replica_errors(obj, self.status_replicas)
        if self.selector:
            try:
                self.get_selector(obj)
            except PathError as error:
                errors.append(fe.invalid(self.selector, "", str(error)))
        return errors


def _fields(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _lookup(obj: dict[str, Any], path: str) -> Any:
    value: Any = obj
    fields = _fields(path)
    for depth, name in enumerate(fields):
        if type(value) is not dict:
            if value is None:
                return None
            raise _accessor_error(".".join(fields[: depth + 1]), value, "map[string]interface{}")
        if name not in value:
            return None
        value = value[name]
    return value


def _integer(obj: dict[str, Any], path: str) -> int | None:
    value = _lookup(obj, path)
    if value is not None and type(value) is not int:
        raise _accessor_error(path, value, "int64")
    return value


def _accessor_error(path: str, value: Any, wanted: str) -> PathError:
    shown = value if type(value) is str else marshal_json(value)
    where = "." + ".".join(_fields(path))
    return PathError(
        f"{where} accessor error: {shown} is of the type {_GO_TYPES[type(value)]}, expected {wanted}"
    )


def _replica_errors(obj: dict[str, Any], path: str) -> list[FieldError]:
    try:
        replicas = _integer(obj, path) or 0
    except PathError as error:
        return [fe.invalid(path, 0, str(error))]
    if replicas < 0:
        return [fe.invalid(path, replicas, "should be a non-negative integer")]
    if replicas > MAX_REPLICAS:
        return [fe.invalid(path, replicas, f"should be less than or equal to {MAX_REPLICAS}")]
    return []
