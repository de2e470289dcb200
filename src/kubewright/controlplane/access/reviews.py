"""SubjectAccessReview, LocalSubjectAccessReview, SelfSubjectAccessReview and SelfSubjectRulesReview.

Reviews are evaluated within the create request and never stored.

Selectors of access reviews: text or requirements, given to authorizers as text. An unknown requirement is
ignored, not rejected: the remaining selector matches more objects, so that allowing it also allows the
original. The response reports ignored requirements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubewright.api.errors import BadRequest, invalid
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind
from kubewright.api.meta import ManagedFieldsEntry, ObjectMeta
from kubewright.api.selectors.field_selectors import escape_value, parse_field_selector
from kubewright.api.selectors.label_selectors import parse_selector
from kubewright.api.values.go_format import GoStruct
from kubewright.api.values.names import check_label_value, check_qualified_name
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.authorization import AuthorizationAttributes, Authorizer, Decision
from kubewright.apiserver.resources.objects import Object, metadata_without_time
from kubewright.apiserver.resources.subresource import SubresourceRequest

from .rule_resolver import RuleResolver

GROUP = "authorization.k8s.io"
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_NOT_BOTH = "cannot be specified in combination with resourceAttributes"
_METADATA = ObjectMeta.__struct_encode_fields__
_MANAGED = ManagedFieldsEntry.__struct_encode_fields__


class AccessReviews:
    """Serves access reviews."""

    def __init__(self, authorizer: Authorizer, rules: RuleResolver | None) -> None:
        self._authorizer = authorizer
        self._rules = rules

    @property
    def handlers(self) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        """Handlers for `builtin_resources`."""
        return {
            (GROUP, "subjectaccessreviews"): {"create": self.subject},
            (GROUP, "localsubjectaccessreviews"): {"create": self.local},
            (GROUP, "selfsubjectaccessreviews"): {"create": self.own},
            (GROUP, "selfsubjectrulesreviews"): {"create": self.rules},
        }

    async def subject(self, call: SubresourceRequest) -> Object:
        """Serve SubjectAccessReview."""
        review = call.body or {}
        spec = review.get("spec") or {}
        errors = _spec_errors(spec) + _user_errors(spec) + _metadata_errors(review)
        _raise_errors(errors)
        return await self._review(review, spec, _subject_of(spec))

    async def local(self, call: SubresourceRequest) -> Object:
        """Serve LocalSubjectAccessReview."""
        review = call.body or {}
        spec = review.get("spec") or {}
        metadata = review["metadata"]
        errors = _spec_errors(spec) + _user_errors(spec)
        if any(metadata[key] for key in metadata if key not in ("namespace", "managedFields")):
            text = "must be empty except for namespace"
            errors.append(FieldError.invalid("metadata", _ordered(metadata), text))
        about = spec.get("resourceAttributes")
        if about is not None and (about.get("namespace") or "") != metadata["namespace"]:
            errors.append(
                FieldError.invalid(
                    "spec.resourceAttributes.namespace",
                    about.get("namespace") or "",
                    "must match metadata.namespace",
                )
            )
        if spec.get("nonResourceAttributes") is not None:
            shown = _shown_path(spec["nonResourceAttributes"])
            text = "disallowed on this kind of request"
            errors.append(FieldError.invalid("spec.nonResourceAttributes", shown, text))
        _raise_errors(errors)
        return await self._review(review, spec, _subject_of(spec))

    async def own(self, call: SubresourceRequest) -> Object:
        """Serve SelfSubjectAccessReview."""
        review = call.body or {}
        spec = review.get("spec") or {}
        _raise_errors(_spec_errors(spec) + _metadata_errors(review))
        return await self._review(review, spec, call.request.user)

    async def _review(self, review: Object, spec: Object, user: User) -> Object:
        about = spec.get("resourceAttributes")
        unread: list[str] = []
        if about is not None:
            fields, fields_unread = read_field_selector(about.get("fieldSelector"))
            labels, labels_unread = read_label_selector(about.get("labelSelector"))
            unread = [text for text in (fields_unread, labels_unread) if text]
            attributes = AuthorizationAttributes(
                user,
                about.get("verb") or "",
                about.get("group") or "",
                about.get("version") or "",
                about.get("resource") or "",
                about.get("subresource") or "",
                about.get("namespace") or "",
                about.get("name") or "",
                "",
                fields,
                labels,
            )
        else:
            path = spec.get("nonResourceAttributes") or {}
            attributes = AuthorizationAttributes(user, path.get("verb") or "", path=path.get("path") or "")
        decision, reason = await self._authorizer.authorize(attributes)
        status: Object = {"allowed": decision is Decision.ALLOW}
        if decision is Decision.DENY:
            status["denied"] = True
        if reason:
            status["reason"] = reason
        if unread:
            status["evaluationError"] = "; ".join(unread)
        return {**review, "status": status}

    async def rules(self, call: SubresourceRequest) -> Object:
        """Serve SelfSubjectRulesReview."""
        review = call.body or {}
        namespace = (review.get("spec") or {}).get("namespace") or ""
        if not namespace:
            raise BadRequest("no namespace on request")
        status: Object = {"resourceRules": [], "nonResourceRules": [], "incomplete": False}
        if self._rules is None:
            status["resourceRules"].append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
            status["nonResourceRules"].append({"verbs": ["*"], "nonResourceURLs": ["*"]})
        else:
            resolved = await self._rules.rules_for(call.request.user, namespace)
            for _, _, written in resolved.rules:
                if written.get("resources"):
                    shown = {"verbs": written.get("verbs") or []}
                    for field in ("apiGroups", "resources", "resourceNames"):
                        if written.get(field):
                            shown[field] = written[field]
                    status["resourceRules"].append(shown)
                if written.get("nonResourceURLs"):
                    status["nonResourceRules"].append(
                        {"verbs": written.get("verbs") or [], "nonResourceURLs": written["nonResourceURLs"]}
                    )
            if resolved.errors:
                errors = list(dict.fromkeys(resolved.errors))
                status["evaluationError"] = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return {
            "kind": "SelfSubjectRulesReview",
            "apiVersion": f"{GROUP}/v1",
            "metadata": metadata_without_time(),
            "spec": {},
            "status": status,
        }


def _subject_of(spec: Object) -> User:
    extra = {key.lower(): tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)


def _spec_errors(spec: Object) -> list[FieldError]:
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors = []
    if about is not None and path is not None:
        errors.append(FieldError.invalid("spec.nonResourceAttributes", _shown_path(path), _NOT_BOTH))
    elif about is None and path is None:
        errors.append(FieldError.invalid("spec.resourceAttributes", None, _ONE_OF))
    for field in ("fieldSelector", "labelSelector"):
        selector = (about or {}).get(field)
        if selector is not None:
            errors += selector_errors(selector, f"spec.resourceAttributes.{field}")
    return errors


def _shown_path(path: Object) -> GoStruct:
    return GoStruct({"Path": path.get("path") or "", "Verb": path.get("verb") or ""})


def _user_errors(spec: Object) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [
        FieldError.invalid(
            "spec.user", spec.get("user") or "", "at least one of user or group must be specified"
        )
    ]


def _metadata_errors(review: Object) -> list[FieldError]:
    metadata = review.get("metadata") or {}
    if any(value for key, value in metadata.items() if key != "managedFields"):
        return [FieldError.invalid("metadata", _ordered(metadata), "must be empty")]
    return []


def _ordered(metadata: Object) -> GoStruct:
    """Return metadata with the field order of kube-apiserver."""
    shown = GoStruct({name: metadata[name] for name in _METADATA if metadata.get(name)})
    if "managedFields" in shown:
        shown["managedFields"] = [
            GoStruct({name: entry[name] for name in _MANAGED if entry.get(name)})
            for entry in shown["managedFields"]
        ]
    return shown


def _raise_errors(errors: list[FieldError]) -> None:
    if errors:
        raise invalid(GroupKind(GROUP, ""), "", errors)


_IN = ("In", "NotIn")
_EXISTS = ("Exists", "DoesNotExist")


def selector_errors(selector: Object, path: str) -> list[FieldError]:
    """Return validation errors of the selector at `path`; unknown operators of newer clients are valid."""
    raw, requirements = selector.get("rawSelector"), selector.get("requirements")
    errors = []
    if raw and requirements:
        text = "may not specified at the same time as requirements"
        errors.append(FieldError.invalid(f"{path}.rawSelector", raw, text))
    if not raw and not requirements:
        text = f"when {path} is specified, requirements or rawSelector is required"
        errors.append(FieldError.required(f"{path}.requirements", text))
    labels = path.endswith(".labelSelector")
    for index, requirement in enumerate(requirements or ()):
        errors += _requirement_errors(requirement, f"{path}.requirements[{index}]", labels)
    return errors


def _requirement_errors(requirement: Object, path: str, labels: bool) -> list[FieldError]:
    key, operator = requirement.get("key") or "", requirement.get("operator") or ""
    values = requirement.get("values") or ()
    errors = []
    if not labels and not key:
        errors.append(FieldError.required(f"{path}.key", "must be specified"))
    if operator in _IN and not values:
        text = "must be specified when `operator` is 'In' or 'NotIn'"
        errors.append(FieldError.required(f"{path}.values", text))
    if operator in _EXISTS and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(FieldError.forbidden(f"{path}.values", text))
    if labels:
        errors += [FieldError.invalid(f"{path}.key", key, text) for text in check_qualified_name(key)]
        for index, value in enumerate(values):
            where = f"{path}.values[{index}]"
            errors += [FieldError.invalid(where, value, text) for text in check_label_value(value)]
    return errors


def read_label_selector(selector: Object | None) -> tuple[str, str]:
    """Return the selector as text, and the requirements that were ignored."""
    return _read(selector, "labelSelector", parse_selector, _label_term)


def read_field_selector(selector: Object | None) -> tuple[str, str]:
    """Return the selector as text, and the requirements that were ignored."""
    return _read(selector, "fieldSelector", parse_field_selector, _field_term)


def _read(
    selector: Object | None, field: str, parse: Callable[[str], object], term: Callable[[Object], str]
) -> tuple[str, str]:
    if not selector:
        return "", ""
    raw = selector.get("rawSelector")
    if raw:
        try:
            parse(raw)
        except ValueError:
            return "", f"spec.resourceAttributes.{field} ignored due to parse error"
        return raw, ""
    wanted = [term(requirement) for requirement in selector.get("requirements") or ()]
    kept = [text for text in wanted if text]
    if len(kept) == len(wanted):
        return ",".join(kept), ""
    how = "partially ignored" if kept else "ignored"
    return ",".join(kept), f"spec.resourceAttributes.{field} {how} due to parse error"


def _label_term(requirement: Object) -> str:
    key, operator = requirement.get("key") or "", requirement.get("operator") or ""
    values = ",".join(requirement.get("values") or ())
    written = {
        "In": f"{key} in ({values})",
        "NotIn": f"{key} notin ({values})",
        "Exists": key,
        "DoesNotExist": f"!{key}",
    }
    return written.get(operator, "")


def _field_term(requirement: Object) -> str:
    symbol = {"In": "=", "NotIn": "!="}.get(requirement.get("operator") or "")
    values = requirement.get("values") or []
    if symbol is None or len(values) != 1:
        return ""
    return f"{requirement.get('key') or ''}{symbol}{escape_value(values[0])}"
