"""`Redactor`: replaces secret values of objects by stable placeholders.

    redactor = Redactor()
    redactor.redact(secret)["data"]["password"]     # base64 of "redacted-5be8d9f1c2a40e77"

What is replaced:

| where | what |
|---|---|
| Secrets, also of other groups | every value of `data` and `stringData` |
| all kinds | the annotation `kubectl.kubernetes.io/last-applied-configuration` and similar ones |
| all kinds | the same values in annotations that contain an object in JSON, as those of kopf and kapp |
| all kinds | `value` of the items of a list `env`, and values of a map `env` |
| all kinds | strings of fields that are named like a credential: `password`, `token`, `apiKey`, ... |
| all kinds | tokens, private keys and passwords of URLs and flags within any string |
| ConfigMaps | the data of Helm releases |

The same value has the same placeholder, so that references, rotations and differences remain visible: it is a
keyed digest of the value. With the default, a random key for each `Redactor`, a value cannot be guessed from
its placeholder. With a key of the user (`key`), placeholders are the same in every export and recording, and
a reader who has the key can verify a guess. Names of keys, fields and variables are not replaced.

The result shares everything that was not replaced with its argument, which is not changed.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

PREFIX: Final = "redacted-"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_APPLIED: Final = frozenset((LAST_APPLIED, "objectset.rio.cattle.io/applied", "banzaicloud.com/last-applied"))
"""Annotations with an object as it was applied, in JSON or compressed."""
_DIGITS: Final = 16
_PLACEHOLDER: Final = re.compile(rf"{PREFIX}[0-9a-f]{{{_DIGITS}}}")
_ENCODED: Final = base64.b64encode(PREFIX.encode()).decode()
"""Start of every encoded placeholder: the length of the prefix is a multiple of 3."""
_CREDENTIAL: Final = re.compile(
    r"(?:.*[-_.])?(?:pass(?:word|wd|phrase)|pwd|token|api[-_]?key|access[-_]?key(?:[-_]?id)?|secret[-_]?(?:key|value)"
    r"|secret[-_]?access[-_]?key|client[-_]?secret|private[-_]?key|auth[-_]?token|(?:bearer|access|refresh)[-_]?token"
    r"|credentials?|connection[-_]?string|dsn)",
    re.IGNORECASE,
)
"""Names of fields whose string value is a credential, not the name of one."""
_CAMEL_CREDENTIAL: Final = re.compile(
    r".*[a-z](?:Password|Passphrase|Token|ApiKey|SecretKey|PrivateKey|Credentials)"
)
_TOKENS: Final = re.compile(
    r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # JSON web tokens
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    r"|\b(?:gh[pousr]_|github_pat_|glpat-|xox[abposr]-|sk_live_|hvs\.|dckr_pat_|npm_)[\w.-]{10,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|(?<=[Bb]earer )[\w.~+/=-]{8,}"
    r"|(?<=[Bb]asic )[A-Za-z0-9+/=]{8,}"
    r"|(?<=://)[^\s/@:]*:[^\s/@]+(?=@)",
    re.DOTALL,
)
_ASSIGNMENT: Final = re.compile(
    r"(?P<name>(?:password|passwd|passphrase|token|api[-_]?key|secret[-_]?key|client[-_]?secret|pwd))"
    r"(?P<between>\\*[\"']?\s*[=:]\s*)"
    r"(?:(?P<quote>\\*[\"'])(?P<quoted>.+?)(?P=quote)|(?P<start>\\*[\"']?)(?P<value>[^\s\"'\\&,;]+))",
    re.IGNORECASE,
)
"""Settings in command lines, configuration files and messages: `--password=x`, `token: x`, `"pwd": "x y"`.

Quotes can be escaped, as in JSON within JSON. What precedes the name is not matched: the time would be
quadratic in the length of a long word."""
_FLAG: Final = re.compile(
    r"--?[\w-]*(?:password|passwd|passphrase|token|api-?key|secret-?key|client-?secret)", re.IGNORECASE
)
"""A flag whose value is the next argument."""
_INDICATORS: Final = re.compile(
    r"eyJ|-----BEGIN|gh[pousr]_|github_pat_|glpat-|xox|sk_live_|hvs\.|dckr_pat_|npm_|AKIA|ASIA|earer |asic |://"
    r"|pass|pwd|token|api[-_]?key|secret",
    re.IGNORECASE,
)
"""What a string contains if one of the other expressions can match: most strings have nothing of it."""
_JSON_SECRETS: Final = {".dockerconfigjson": '{"auths":{}}', ".dockercfg": "{}"}
"""Values that the API server validates."""


class Redactor:
    """Replaces secret values of objects."""

    def __init__(self, key: bytes | None = None, *, secrets_only: bool = False) -> None:
        """`secrets_only`: replace the data of Secrets only, in objects that do not leave this process."""
        self.key: Final = key if key is not None else secrets.token_bytes(32)
        self._secrets_only = secrets_only

    def placeholder(self, value: str) -> str:
        """Return the placeholder of a value; a placeholder stays as it is."""
        if not value or _PLACEHOLDER.fullmatch(value):
            return value
        digest = hmac.digest(self.key, value.encode(errors="surrogatepass"), "sha256")
        return PREFIX + digest.hex()[:_DIGITS]

    def redact(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Return an object, or a list of objects, without secret values."""
        kind, version = obj.get("kind"), obj.get("apiVersion")
        if isinstance(kind, str) and kind.endswith("List") and isinstance(obj.get("items"), list):
            item = kind.removesuffix("List")
            items = [
                self.redact({"kind": item, "apiVersion": version, **each} if item else each)
                if isinstance(each, dict)
                else each
                for each in obj["items"]
            ]
            return {**obj, "items": items}
        result = dict(obj)
        if kind == "Secret":
            result = self._secret(result)
        if self._secrets_only:
            return self._without_applied(result) if kind == "Secret" else result
        if kind == "ConfigMap" and ((obj.get("metadata") or {}).get("labels") or {}).get("owner") == "helm":
            for field in ("data", "binaryData"):
                if isinstance(result.get(field), dict):
                    result[field] = {name: self._scalar(value) for name, value in result[field].items()}
        result = self._without_applied(result)
        redacted: dict[str, Any] = {
            name: value if kind == "Secret" and name in ("data", "stringData") else self._value(name, value)
            for name, value in result.items()
        }
        return redacted

    def text(self, text: str) -> str:
        """Return a text, such as a message, without tokens, keys and passwords."""
        if _INDICATORS.search(text) is None:
            return text
        text = _TOKENS.sub(lambda match: self.placeholder(match[0]), text)
        return _ASSIGNMENT.sub(self._assignment, text)

    def texts(self, value: Any) -> Any:
        """Return plain data without secrets in its texts, such as errors and messages of events."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {name: self.texts(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.texts(each) for each in value]
        return value

    # Parts of objects

    def _assignment(self, match: re.Match[str]) -> str:
        if (quote := match["quote"]) is not None:
            value = quote + self.placeholder(match["quoted"]) + quote
        else:
            value = match["start"] + self.placeholder(match["value"])
        return match["name"] + match["between"] + value

    def _secret(self, obj: dict[str, Any]) -> dict[str, Any]:
        is_core = obj.get("apiVersion") in ("v1", None)
        for field in ("data", "stringData"):
            values = obj.get(field)
            if isinstance(values, dict):
                obj[field] = {
                    name: self._secret_value(name, value, is_encoded=is_core and field == "data")
                    for name, value in values.items()
                }
        return obj

    def _secret_value(self, name: str, value: Any, *, is_encoded: bool) -> Any:
        if not isinstance(value, str) or not value:
            return value
        if name in _JSON_SECRETS:
            plain = _JSON_SECRETS[name]
        elif is_encoded:
            if value.startswith(_ENCODED) and is_placeholder(value):
                return value
            try:
                content = base64.b64decode(value).decode("utf-8", errors="surrogateescape")
            except ValueError:
                content = value
            # The placeholder of a Secret is that of the same value in an environment variable.
            plain = self.placeholder(content)
        else:
            plain = self.placeholder(value)
        return base64.b64encode(plain.encode()).decode() if is_encoded else plain

    def _without_applied(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return an object without secret values in annotations that contain it, or a part of it, again."""
        metadata = obj.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(annotations, dict):
            return obj
        replaced = {name: self._annotation(name, value, obj) for name, value in annotations.items()}
        return obj if replaced == annotations else {**obj, "metadata": {**metadata, "annotations": replaced}}

    def _annotation(self, name: str, value: Any, obj: Mapping[str, Any]) -> Any:
        if name in _APPLIED:
            return self.placeholder(str(value))
        if not isinstance(value, str) or not value.startswith("{"):
            return value
        try:
            content = json.loads(value)
            # A part of the object has no type of its own.
            typed = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), **content}
            redacted = self.redact(typed)
        except ValueError:
            return value  # not JSON
        except RecursionError:
            return self.placeholder(value)
        if redacted == typed:
            return value
        return json.dumps({field: redacted[field] for field in content}, separators=(",", ":"))

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.placeholder(value) if is_credential(name) else self.text(value)
        if isinstance(value, dict):
            if name == "env":
                return {key: self._environment(item) for key, item in value.items()}
            result: dict[str, Any] | None = None
            for key, item in value.items():
                replaced = self._value(key, item)
                if replaced is not item:
                    if result is None:
                        result = dict(value)
                    result[key] = replaced
            return value if result is None else result
        if isinstance(value, list):
            return self._items(name, value)
        return value

    def _items(self, name: str, values: list[Any]) -> list[Any]:
        result: list[Any] | None = None
        is_flag = False
        for index, item in enumerate(values):
            if name == "env":
                replaced = self._environment(item)
            elif is_flag and isinstance(item, str) and not item.startswith("-"):
                replaced = self.placeholder(item)
            else:
                # The items of a list are not named, unlike the fields of an object.
                replaced = self._value("", item)
            is_flag = isinstance(item, str) and _FLAG.fullmatch(item) is not None
            if replaced is not item:
                if result is None:
                    result = list(values)
                result[index] = replaced
        return values if result is None else result

    def _environment(self, item: Any) -> Any:
        if isinstance(item, dict):
            if isinstance(item.get("value"), str) and item["value"]:
                return {**item, "value": self.placeholder(item["value"])}
            return self._value("", item)
        return self._scalar(item)

    def _scalar(self, value: Any) -> Any:
        return self.placeholder(value) if isinstance(value, str) else self._value("", value)


def is_credential(name: str) -> bool:
    """Whether a field with this name has a credential as its value."""
    return _CREDENTIAL.fullmatch(name) is not None or _CAMEL_CREDENTIAL.fullmatch(name) is not None


def is_placeholder(value: object) -> bool:
    """Whether a value is a placeholder, also the encoded one of a Secret."""
    if not isinstance(value, str):
        return False
    if value.startswith(_ENCODED):
        try:
            value = base64.b64decode(value).decode()
        except ValueError:
            return False
    return _PLACEHOLDER.fullmatch(value) is not None


def has_placeholder(text: str) -> bool:
    """Whether a text contains a placeholder."""
    return _PLACEHOLDER.search(text) is not None or _ENCODED in text
