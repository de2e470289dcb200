"""Providers that encrypt and decrypt values, and the chain of providers of a resource.

The first provider of a chain encrypts; all of them decrypt, chosen by the prefix of the value. A value that
the first provider would not have written is stale: it is encrypted anew with the next write of its object,
even if that changes nothing.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.padding import PKCS7

from kubewright.apiserver.resources.stored_objects import ENCRYPTED

_BLOCK = 16
_GCM_NONCE = 12


class DecryptionError(Exception):
    """A value cannot be decrypted."""


class KeyNotLoaded(Exception):
    """The key of a value has to be loaded first: await `Provider.load_key`."""


class Provider(ABC):
    """Encrypts values; `context` is the storage key, which some providers authenticate."""

    prefix: bytes
    """Prefix of the values that it wrote."""

    async def open(self) -> None:  # noqa: B027 - most providers have no connection
        """Connect."""

    async def close(self) -> None:  # noqa: B027 - most providers have no connection
        """Disconnect."""

    def health_error(self) -> str:
        """Return why values cannot be encrypted now; empty if they can."""
        return ""

    @abstractmethod
    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt a value; the result has no prefix."""

    @abstractmethod
    def decrypt(self, data: bytes, context: bytes) -> tuple[bytes, bool]:
        """Decrypt a value without its prefix; return it and whether its key is stale.

        Raises `KeyNotLoaded` or `DecryptionError`.
        """

    async def load_key(self, data: bytes) -> None:
        """Load the key of a value whose decryption raised `KeyNotLoaded`."""
        raise NotImplementedError


class IdentityProvider(Provider):
    """Stores values as they are."""

    prefix = b""

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Return the value."""
        return plain

    def decrypt(self, data: bytes, context: bytes) -> tuple[bytes, bool]:
        """Return the value, unless another provider encrypted it."""
        if data.startswith(ENCRYPTED):
            raise DecryptionError(
                "the value is encrypted, and no configured provider and key fits its prefix"
            )
        return data, False


class AESCBCProvider(Provider):
    """AES in CBC mode with PKCS#7 padding; the value is not authenticated."""

    def __init__(self, name: str, key: bytes) -> None:
        self.prefix = ENCRYPTED + f"aescbc:v1:{name}:".encode()
        self._algorithm = algorithms.AES(key)

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt with a random initialization vector, which precedes the result."""
        vector = os.urandom(_BLOCK)
        padder = PKCS7(_BLOCK * 8).padder()
        encryptor = Cipher(self._algorithm, modes.CBC(vector)).encryptor()
        return vector + encryptor.update(padder.update(plain) + padder.finalize()) + encryptor.finalize()

    def decrypt(self, data: bytes, context: bytes) -> tuple[bytes, bool]:
        """Decrypt; a wrong key is only noticed if the padding is wrong."""
        if len(data) < 2 * _BLOCK or len(data) % _BLOCK:
            raise DecryptionError("the stored data is not a sequence of AES blocks")
        decryptor = Cipher(self._algorithm, modes.CBC(data[:_BLOCK])).decryptor()
        unpadder = PKCS7(_BLOCK * 8).unpadder()
        padded = decryptor.update(data[_BLOCK:]) + decryptor.finalize()
        try:
            return unpadder.update(padded) + unpadder.finalize(), False
        except ValueError:
            raise DecryptionError("invalid padding: the key is wrong, or the value is damaged") from None


class AESGCMProvider(Provider):
    """AES in GCM mode with a random nonce; a key must be replaced after 200,000 writes."""

    def __init__(self, name: str, key: bytes) -> None:
        self.prefix = ENCRYPTED + f"aesgcm:v1:{name}:".encode()
        self._cipher = AESGCM(key)

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt with a random nonce, which precedes the result."""
        return gcm_encrypt(self._cipher, plain, context)

    def decrypt(self, data: bytes, context: bytes) -> tuple[bytes, bool]:
        """Decrypt a value of the same storage key."""
        return gcm_decrypt(self._cipher, data, context), False


class SecretboxProvider(Provider):
    """XSalsa20 and Poly1305, by PyNaCl (extra `encryption`)."""

    def __init__(self, name: str, key: bytes) -> None:
        try:
            from nacl.secret import SecretBox
        except ImportError:
            raise ImportError(
                "secretbox requires PyNaCl; install it with: pip install 'kubewright[encryption]'"
            ) from None
        self.prefix = ENCRYPTED + f"secretbox:v1:{name}:".encode()
        self._box = SecretBox(key)

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt with a random nonce, which precedes the result."""
        return bytes(self._box.encrypt(plain))

    def decrypt(self, data: bytes, context: bytes) -> tuple[bytes, bool]:
        """Decrypt."""
        from nacl.exceptions import CryptoError
        from nacl.exceptions import ValueError as NaClValueError

        try:
            return self._box.decrypt(data), False
        except (CryptoError, NaClValueError):
            raise DecryptionError("the key is wrong, or the value is damaged") from None


def gcm_encrypt(cipher: AESGCM, plain: bytes, context: bytes) -> bytes:
    """Encrypt with a random nonce, which precedes the result."""
    nonce = os.urandom(_GCM_NONCE)
    return nonce + cipher.encrypt(nonce, plain, context)


def gcm_decrypt(cipher: AESGCM, data: bytes, context: bytes) -> bytes:
    """Decrypt what `gcm_encrypt` returned; raises `DecryptionError`."""
    try:
        return cipher.decrypt(data[:_GCM_NONCE], data[_GCM_NONCE:], context)
    except (InvalidTag, ValueError):
        raise DecryptionError("the key is wrong, or the value is damaged or of another object") from None


class ProviderChain:
    """The providers of a resource, in order of the configuration."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        self.providers = tuple(providers)
        self._first = self.providers[0]

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt with the first provider."""
        return self._first.prefix + self._first.encrypt(plain, context)

    def decrypt(self, data: bytes, context: bytes) -> tuple[bytes, bool]:
        """Decrypt with the provider that wrote a value; return it and whether it is stale."""
        provider = self._provider(data)
        plain, stale = provider.decrypt(data[len(provider.prefix) :], context)
        return plain, stale or provider is not self._first

    async def load_key(self, data: bytes) -> None:
        """Load the key of a value whose decryption raised `KeyNotLoaded`."""
        provider = self._provider(data)
        await provider.load_key(data[len(provider.prefix) :])

    def _provider(self, data: bytes) -> Provider:
        for provider in self.providers:
            if data.startswith(provider.prefix) and (provider.prefix or not data.startswith(ENCRYPTED)):
                return provider
        if data.startswith(ENCRYPTED):
            raise DecryptionError(
                "the value is encrypted, and no configured provider and key fits its prefix"
            )
        raise DecryptionError("the value is not encrypted, and the identity provider is not configured")
