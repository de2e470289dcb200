"""The `EncryptionConfiguration` file: which resources are encrypted, and by which providers.

    apiVersion: apiserver.config.k8s.io/v1
    kind: EncryptionConfiguration
    resources:
      - resources: [secrets, widgets.example.com]
        providers:
          - aesgcm: {keys: [{name: key1, secret: BASE64}]}
          - identity: {}

`RESOURCE.GROUP` is one resource, `*.GROUP` all of a group, `*.` those of the core group and `*.*` all. The
first entry of the file that names a resource applies; names precede wildcards of a group, and these `*.*`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kubewright.controlplane.configuration.config_file import (
    ConfigFileError,
    ConfigStruct,
    naming_file,
    positive_seconds,
    read_config_file,
)

from .providers import (
    AESCBCProvider,
    AESGCMProvider,
    IdentityProvider,
    Provider,
    ProviderChain,
    SecretboxProvider,
)

_AES_SIZES: Final = (16, 24, 32)
_KEYED: Final[Mapping[str, tuple[Callable[[str, bytes], Provider], tuple[int, ...]]]] = {
    "aescbc": (AESCBCProvider, _AES_SIZES),
    "aesgcm": (AESGCMProvider, _AES_SIZES),
    "secretbox": (SecretboxProvider, (32,)),
}
_PROVIDERS: Final = (*_KEYED, "identity", "kms")
_NOT_RESOURCES: Final = ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")


class _Key(ConfigStruct, frozen=True):
    name: str = ""
    secret: str = ""


class _Keys(ConfigStruct, frozen=True):
    keys: list[_Key] = []


class _Identity(ConfigStruct, frozen=True):
    pass


class _KMS(ConfigStruct, frozen=True):
    name: str = ""
    endpoint: str = ""
    api_version: str = "v1"
    timeout: str = "3s"
    cachesize: int | None = None


class _ProviderEntry(ConfigStruct, frozen=True):
    aescbc: _Keys | None = None
    aesgcm: _Keys | None = None
    secretbox: _Keys | None = None
    identity: _Identity | None = None
    kms: _KMS | None = None


class _Entry(ConfigStruct, frozen=True):
    resources: list[str] = []
    providers: list[_ProviderEntry] = []


class _File(ConfigStruct, frozen=True):
    resources: list[_Entry] = []


class _GroupResource(NamedTuple):
    group: str
    resource: str


class EncryptionRules:
    """The provider chains of a configuration, by resource."""

    def __init__(self, chains: Sequence[tuple[Sequence[_GroupResource], ProviderChain]]) -> None:
        self._chains: dict[_GroupResource, ProviderChain] = {}
        for resources, chain in chains:
            for each in resources:
                self._chains.setdefault(each, chain)
        self.providers = tuple({provider: None for _, chain in chains for provider in chain.providers})

    async def open(self) -> None:
        """Connect the providers; raises `StorageError` if one does not respond, after closing the others."""
        try:
            for provider in self.providers:
                await provider.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect the providers."""
        for provider in self.providers:
            await provider.close()

    def chain(self, group: str, resource: str) -> ProviderChain | None:
        """Return the providers of a resource; `None` if it is not encrypted."""
        for key in (_GroupResource(group, resource), _GroupResource(group, "*"), _GroupResource("*", "*")):
            if key in self._chains:
                return self._chains[key]
        return None


def load_encryption_config(path: str | Path) -> EncryptionRules:
    """Read a configuration file; raises `ConfigFileError`."""
    file = read_config_file(path, "EncryptionConfiguration", _File)
    with naming_file(path):
        if not file.resources:
            raise ConfigFileError("resources: at least one entry is required")
        names: set[str] = set()
        chains = []
        for index, entry in enumerate(file.resources):
            at = f"resources[{index}]"
            chains.append((_resources(entry, f"{at}.resources"), _chain(entry, f"{at}.providers", names)))
        return EncryptionRules(chains)


def _resources(entry: _Entry, at: str) -> list[_GroupResource]:
    if not entry.resources:
        raise ConfigFileError(f"{at}: at least one resource is required")
    found: list[_GroupResource] = []
    for index, text in enumerate(entry.resources):
        reason = _resource_error(text)
        resource, _, group = text.partition(".")
        parsed = _GroupResource(group, resource)
        if parsed in found:
            reason = "it is listed twice"
        elif any(_overlap(parsed, other) for other in found):
            reason = "another entry of this list already includes it"
        if reason:
            raise ConfigFileError(f"{at}[{index}]: {text!r}: {reason}")
        found.append(parsed)
    return found


def _resource_error(text: str) -> str:
    resource, _, group = text.partition(".")
    if text != text.lower():
        return "resource names have no capital letters"
    if text == "*":
        return "use '*.' for all resources of the core group, or '*.*' for all resources"
    if text in _NOT_RESOURCES:
        return "it has no REST API and cannot be encrypted"
    if group == "events.k8s.io":
        return "events are stored in the core group; use 'events'"
    if group == "extensions":
        return "the group extensions has been removed"
    if group == "*" and resource != "*":
        return "a resource cannot be encrypted across groups"
    return ""


def _overlap(one: _GroupResource, other: _GroupResource) -> bool:
    everything = _GroupResource("*", "*")
    if everything in (one, other):
        return True
    return one.group == other.group and "*" in (one.resource, other.resource)


def _chain(entry: _Entry, at: str, kms_names: set[str]) -> ProviderChain:
    if not entry.providers:
        raise ConfigFileError(f"{at}: at least one provider is required")
    providers: list[Provider] = []
    for index, each in enumerate(entry.providers):
        here = f"{at}[{index}]"
        chosen = [name for name in _PROVIDERS if getattr(each, name) is not None]
        if len(chosen) != 1:
            problem = "has several providers; write one per list element" if chosen else "has no provider"
            raise ConfigFileError(f"{here}: {problem} ({', '.join(_PROVIDERS)})")
        if each.identity is not None:
            providers.append(IdentityProvider())
        elif each.kms is not None:
            providers.append(_kms(each.kms, f"{here}.kms", kms_names))
        else:
            providers += _keyed(chosen[0], getattr(each, chosen[0]), f"{here}.{chosen[0]}.keys")
    return ProviderChain(providers)


def _keyed(kind: str, keys: _Keys, at: str) -> Iterable[Provider]:
    make, sizes = _KEYED[kind]
    if not keys.keys:
        raise ConfigFileError(f"{at}: at least one key is required")
    for index, key in enumerate(keys.keys):
        here = f"{at}[{index}]"
        if not key.name:
            raise ConfigFileError(f"{here}.name: a key needs a name")
        try:
            secret = base64.b64decode(key.secret, validate=True)
        except (binascii.Error, ValueError):
            raise ConfigFileError(f"{here}.secret: the secret is not valid base64") from None
        if len(secret) not in sizes:
            expected = " or ".join(map(str, sizes))
            raise ConfigFileError(
                f"{here}.secret: the secret has {len(secret)} bytes, not {expected}; "
                "create one with: head -c 32 /dev/urandom | base64"
            )
        try:
            yield make(key.name, secret)
        except ImportError as error:
            raise ConfigFileError(f"{at}: {error}") from None


def _kms(config: _KMS, at: str, names: set[str]) -> Provider:
    if config.api_version != "v2":
        raise ConfigFileError(f"{at}.apiVersion: {config.api_version!r} is not supported; use 'v2'")
    if config.cachesize is not None:
        raise ConfigFileError(f"{at}.cachesize: it is not a field of v2")
    if not config.name or ":" in config.name:
        raise ConfigFileError(f"{at}.name: {config.name!r} must not be empty or contain ':'")
    if config.name in names:
        raise ConfigFileError(f"{at}.name: {config.name!r} is the name of another KMS provider")
    names.add(config.name)
    scheme, _, socket = config.endpoint.partition("://")
    if scheme != "unix" or not socket:
        raise ConfigFileError(f"{at}.endpoint: {config.endpoint!r} is not unix:///PATH")
    timeout = positive_seconds(config.timeout, f"{at}.timeout")
    try:
        from .kms import KMSProvider
    except ImportError as error:
        raise ConfigFileError(f"{at}: {error}") from None
    return KMSProvider(config.name, socket, timeout)
