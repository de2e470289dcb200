"""Encryption with a KMS plug-in (v2): a gRPC service on a unix socket that encrypts keys.

A value is encrypted with AES-GCM under a key that is derived, per value, from a random seed. The plug-in only
encrypts the seed, once per start and per change of its key; values carry the encrypted seed. So it is called
for a write after a rotation and for a read of a seed that is not known yet, not for every value.

    value:  k8s:enc:kms:v2:NAME:  EncryptedObject(encrypted data, key ID, encrypted seed, annotations)
    data:   info (32 random bytes)  nonce  AES-GCM(HKDF-Expand(seed, info), plain)

The status of the plug-in is polled. While it fails, the current seed is used for writes for three minutes
after the last success; then writes fail. Reads of known seeds continue.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Callable
from typing import Annotated, Final, NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from kubewright.api.values.times import monotonic_time
from kubewright.apiserver.encoding.protobuf_wire import ProtobufError
from kubewright.apiserver.resources.stored_objects import ENCRYPTED
from kubewright.background import run_forever
from kubewright.node.errors import RPCError
from kubewright.node.messages import Message
from kubewright.node.rpc import Channel, Method, Service
from kubewright.storage.contract import StorageError

from .providers import DecryptionError, KeyNotLoaded, Provider, gcm_decrypt, gcm_encrypt

logger = logging.getLogger("kubewright.controlplane")

_SIZE: Final = 32
_SEED_TYPE: Final = 1
_POLL_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 10.0
_WRITE_SECONDS: Final = 180.0
"""How long a seed is used for writes after the plug-in was last found healthy."""
_MAX_KEY_ID: Final = 1024
_MAX_SEED: Final = 1024
_MAX_ANNOTATIONS: Final = 32 * 1024


class StatusRequest(Message):
    """Asks for the health and the current key."""


class StatusResponse(Message):
    """Health ("ok" or an error) and the ID of the current key."""

    version: Annotated[str, 1] = ""
    healthz: Annotated[str, 2] = ""
    key_id: Annotated[str, 3] = ""


class EncryptRequest(Message):
    """Asks for the encryption of a seed."""

    plaintext: Annotated[bytes, 1] = b""
    uid: Annotated[str, 2] = ""


class EncryptResponse(Message):
    """An encrypted seed, and what is needed to decrypt it."""

    ciphertext: Annotated[bytes, 1] = b""
    key_id: Annotated[str, 2] = ""
    annotations: Annotated[dict[str, bytes], 3] = {}


class DecryptRequest(Message):
    """Asks for the decryption of a seed."""

    ciphertext: Annotated[bytes, 1] = b""
    uid: Annotated[str, 2] = ""
    key_id: Annotated[str, 3] = ""
    annotations: Annotated[dict[str, bytes], 4] = {}


class DecryptResponse(Message):
    """A decrypted seed."""

    plaintext: Annotated[bytes, 1] = b""


class EncryptedObject(Message):
    """A stored value."""

    encrypted_data: Annotated[bytes, 1] = b""
    key_id: Annotated[str, 2] = ""
    encrypted_source: Annotated[bytes, 3] = b""
    annotations: Annotated[dict[str, bytes], 4] = {}
    source_type: Annotated[int, 5] = 0


_STATUS: Final = Method("Status", StatusRequest, StatusResponse)
_ENCRYPT: Final = Method("Encrypt", EncryptRequest, EncryptResponse)
_DECRYPT: Final = Method("Decrypt", DecryptRequest, DecryptResponse)
KEY_MANAGEMENT: Final = Service("v2.KeyManagementService", _STATUS, _ENCRYPT, _DECRYPT)
"""The service of a plug-in."""


class _Seed(NamedTuple):
    """A seed, and its encrypted form."""

    seed: bytes
    encrypted: EncryptResponse


class KMSProvider(Provider):
    """Encrypts with seeds that the plug-in at a unix socket encrypts."""

    def __init__(
        self, name: str, socket: str, timeout: float = 3.0, *, clock: Callable[[], float] = monotonic_time
    ) -> None:
        self.name = name
        self.prefix = ENCRYPTED + f"kms:v2:{name}:".encode()
        self._socket = socket
        self._timeout = timeout
        self._clock = clock
        self._channel: Channel | None = None
        self._poll: asyncio.Task[None] | None = None
        self._current: _Seed | None = None
        self._write_until = 0.0
        self._error = "the status of the plug-in is not known yet"
        self._seeds: dict[bytes, bytes] = {}

    async def open(self) -> None:
        """Connect, and create a seed; raise `StorageError` if the plug-in does not respond."""
        self._channel = Channel(self._socket)
        await self.check()
        if self._current is None:
            await self.close()
            raise StorageError(
                f"KMS plug-in {self.name!r} at {self._socket}: {self._error}; start it before the server"
            )
        self._poll = run_forever(self._check_regularly, name=f"KMS plug-in {self.name}")

    async def close(self) -> None:
        """Disconnect."""
        if self._poll is not None:
            self._poll.cancel()
            await asyncio.wait({self._poll})
            self._poll = None
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    def health_error(self) -> str:
        """Return why the plug-in was not healthy at the last check."""
        return self._error

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(_RETRY_SECONDS if self._error else _POLL_SECONDS)
            await self.check()

    async def check(self) -> None:
        """Ask for the status of the plug-in; create a seed if its key has changed."""
        assert self._channel is not None
        try:
            async with asyncio.timeout(self._timeout):
                status = await self._channel.call(_STATUS, StatusRequest())
            _check_status(status)
            if self._current is None or self._current.encrypted.key_id != status.key_id:
                self._current = await self._create_seed()
                logger.info("changed the encryption key", extra={"kms": self.name})
            self._write_until = self._clock() + _WRITE_SECONDS
            self._error = ""
        except (RPCError, TimeoutError, ValueError, ProtobufError) as error:
            self._error = str(error) or f"no response within {self._timeout:g} s"
            logger.warning("KMS plug-in is not healthy", extra={"kms": self.name, "error": self._error})

    async def _create_seed(self) -> _Seed:
        assert self._channel is not None
        seed = os.urandom(_SIZE)
        request = EncryptRequest(plaintext=seed, uid=str(uuid.uuid4()))
        async with asyncio.timeout(self._timeout):
            encrypted = await self._channel.call(_ENCRYPT, request)
        _check_encrypted(encrypted)
        created = _Seed(seed, encrypted)
        self._seeds[_identity(encrypted.ciphertext, encrypted.key_id, encrypted.annotations)] = seed
        return created

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt with a key that is derived from the current seed."""
        current = self._current
        if current is None or self._clock() > self._write_until:
            raise StorageError(
                f"KMS plug-in {self.name!r} is not healthy: {self._error}; writes fail until it is"
            )
        info = os.urandom(_SIZE)
        return EncryptedObject(
            encrypted_data=info + gcm_encrypt(_derived(current.seed, info), plain, context),
            key_id=current.encrypted.key_id,
            encrypted_source=current.encrypted.ciphertext,
            annotations=current.encrypted.annotations,
            source_type=_SEED_TYPE,
        ).encode()

    def decrypt(self, data: bytes, context: bytes) -> tuple[bytes, bool]:
        """Decrypt; raises `KeyNotLoaded` until the plug-in has decrypted the seed."""
        stored = _decode(data)
        seed = self._seeds.get(_identity(stored.encrypted_source, stored.key_id, stored.annotations))
        if seed is None:
            raise KeyNotLoaded
        body = stored.encrypted_data
        if stored.source_type == _SEED_TYPE:
            plain = gcm_decrypt(_derived(seed, body[:_SIZE]), body[_SIZE:], context)
        else:
            plain = gcm_decrypt(AESGCM(seed), body, context)
        current = self._current
        fresh = current is not None and stored.key_id == current.encrypted.key_id
        return plain, not fresh or stored.source_type != _SEED_TYPE

    async def load_key(self, data: bytes) -> None:
        """Let the plug-in decrypt the seed of a value; raises `DecryptionError`."""
        stored = _decode(data)
        if self._channel is None:
            raise DecryptionError(f"KMS plug-in {self.name!r} is not connected")
        request = DecryptRequest(
            ciphertext=stored.encrypted_source,
            uid=str(uuid.uuid4()),
            key_id=stored.key_id,
            annotations=stored.annotations,
        )
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._channel.call(_DECRYPT, request)
        except (RPCError, TimeoutError) as error:
            reason = str(error) or f"no response within {self._timeout:g} s"
            raise DecryptionError(f"KMS plug-in {self.name!r} cannot decrypt the key: {reason}") from None
        self._seeds[_identity(stored.encrypted_source, stored.key_id, stored.annotations)] = (
            response.plaintext
        )


def _derived(seed: bytes, info: bytes) -> AESGCM:
    """Return the cipher of one value."""
    return AESGCM(HKDFExpand(SHA256(), _SIZE, info).derive(seed))


def _decode(data: bytes) -> EncryptedObject:
    try:
        stored = EncryptedObject.decode(data)
    except ProtobufError as error:
        raise DecryptionError(f"the stored data is damaged: {error}") from None
    if not stored.encrypted_data or not stored.encrypted_source or stored.source_type not in (0, _SEED_TYPE):
        raise DecryptionError("the stored data is damaged: fields of the encrypted object are missing")
    return stored


def _identity(encrypted: bytes, key_id: str, annotations: dict[str, bytes]) -> bytes:
    """Return what distinguishes an encrypted seed from others."""
    named = dict(sorted(annotations.items()))
    return EncryptResponse(ciphertext=encrypted, key_id=key_id, annotations=named).encode()


def _check_status(status: StatusResponse) -> None:
    """Raise `ValueError` for a plug-in that is not healthy."""
    if status.healthz != "ok":
        raise ValueError(f"its status is {status.healthz!r}, not 'ok'")
    if status.version not in ("v2", "v2beta1"):
        raise ValueError(f"its version is {status.version!r}, not 'v2'")
    _check_key_id(status.key_id)


def _check_key_id(key_id: str) -> None:
    if not 0 < len(key_id.encode()) <= _MAX_KEY_ID:
        raise ValueError(f"a key ID must have 1 to {_MAX_KEY_ID} bytes")


def _check_encrypted(encrypted: EncryptResponse) -> None:
    """Raise `ValueError` for a response that cannot be stored."""
    _check_key_id(encrypted.key_id)
    if not 0 < len(encrypted.ciphertext) <= _MAX_SEED:
        raise ValueError(f"an encrypted key must have 1 to {_MAX_SEED} bytes")
    annotations = encrypted.annotations.items()
    if sum(len(key) + len(value) for key, value in annotations) > _MAX_ANNOTATIONS:
        raise ValueError(f"annotations must have at most {_MAX_ANNOTATIONS} bytes")
    wrong = next((key for key, _ in annotations if "." not in key), None)
    if wrong is not None:
        raise ValueError(f"annotation {wrong!r} is not a fully qualified domain name")
