"""Cipher suites by the names that Go and kube-apiserver use, for TLS 1.2.

Those of TLS 1.3 cannot be chosen, neither in Go nor here; their names are accepted.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final

_OPENSSL: Final = {
    f"TLS_{exchange}_WITH_{name}": prefix + cipher
    for exchange, prefix in (
        ("ECDHE_ECDSA", "ECDHE-ECDSA-"),
        ("ECDHE_RSA", "ECDHE-RSA-"),
        ("RSA", ""),
    )
    for name, cipher in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
        ("AES_128_CBC_SHA256", "AES128-SHA256"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("CHACHA20_POLY1305", "CHACHA20-POLY1305"),
    )
    if exchange != "RSA" or "CHACHA20" not in name
}
_TLS_1_3: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")


def check_cipher_suites(names: Sequence[str]) -> None:
    """Raise `ValueError` for a name that is not supported."""
    for name in names:
        if name not in _OPENSSL and name not in _TLS_1_3:
            raise ValueError(f"Cipher suite {name} not supported or doesn't exist")


def set_cipher_suites(context: ssl.SSLContext, names: Sequence[str]) -> None:
    """Allow only these suites; without one for TLS 1.2, clients need TLS 1.3."""
    ciphers = [_OPENSSL[name] for name in names if name in _OPENSSL]
    if ciphers:
        context.set_ciphers(":".join(dict.fromkeys(ciphers)))
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
