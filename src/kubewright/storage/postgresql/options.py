"""Address and options of a PostgreSQL database, from a URL.

The names of the options for TLS and passwords are those of libpq. Passwords are never part of a URL, which
other users of the machine can see in the list of processes.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from kubewright.storage.contract import StorageError

_SECONDS = ("timeout", "compact_every")
_FILES = ("sslrootcert", "sslcert", "sslkey", "passfile")
_FORM = "postgresql://[USER@]HOST[:PORT][,HOST[:PORT]...]/DATABASE"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgreSQLOptions:
    """Addresses and options of PostgreSQL. The names are those of the URL's query."""

    database: str
    addresses: tuple[tuple[str, int | None], ...] = ()
    """Hosts and ports. The server that accepts writes is used; without any, PGHOST or the local socket."""
    host: str | None = None
    """Directory of the Unix socket, instead of addresses."""
    port: int | None = None
    """Port of `host`."""
    user: str | None = None
    """User, if not PGUSER or the user of the process."""
    schema: str = "kubewright"
    """Schema of the tables; several storages can use one database with different schemas."""
    passfile: str | None = None
    """File in the format of `.pgpass`."""
    password_file: str | None = None
    """File that holds only the password; read again at every connect."""
    password_env: str | None = None
    """Environment variable that contains the password, if not PGPASSWORD."""
    sslmode: str | None = None
    """disable, allow, prefer (default), require, verify-ca or verify-full."""
    sslrootcert: str | None = None
    """File with the certificates that the server's must be signed by."""
    sslcert: str | None = None
    """File with the client certificate."""
    sslkey: str | None = None
    """File with the key of the client certificate."""
    timeout: float = 5.0
    """Timeout of a request with all its retries, in seconds; connecting may take four times as long."""
    compact_every: float = 300.0
    """Seconds between compactions, the minimum age of compacted history; 0 disables them."""
    connections: int = 6
    """Maximum number of connections, without the one that waits for notifications."""

    @classmethod
    def parse(cls, url: str) -> PostgreSQLOptions:
        """Options from `postgresql://[USER@]HOST[:PORT][,...]/DATABASE[?name=value&...]`."""
        parts = urlsplit(url)
        user, at, hosts = parts.netloc.rpartition("@")
        if ":" in user:
            raise StorageError(
                "a password in a storage URL would end up in logs: use postgresql://USER@HOST/DATABASE with "
                "password_file=FILE, password_env=NAME or PGPASSWORD"
            )
        database = unquote(parts.path.strip("/"))
        if not database or "/" in database:
            raise StorageError(f"the storage URL has no database name; use {_FORM}")
        values: dict[str, Any] = {"user": unquote(user)} if at else {}
        known = {option.name for option in fields(cls)} - {"addresses", "database"}
        for name, text in parse_qsl(parts.query, keep_blank_values=True):
            if name == "password":
                raise StorageError(
                    "a password in a storage URL would end up in logs: "
                    "use password_file=FILE, password_env=NAME or PGPASSWORD"
                )
            if name not in known:
                raise StorageError(
                    f"unknown PostgreSQL option {name!r}; use one of {', '.join(sorted(known))}"
                )
            values[name] = _value(name, text)
        addresses = tuple(_address(host) for host in hosts.split(",") if host)
        return cls(database=database, addresses=addresses, **values)

    def __post_init__(self) -> None:
        if self.addresses and self.host:
            raise StorageError("PostgreSQL option host is for URLs without an address")
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", self.schema) or self.schema.startswith("pg_"):
            raise StorageError(
                "PostgreSQL option schema is at most 63 lower-case letters, digits and underscores, "
                f"without the prefix pg_, not {self.schema!r}"
            )
        if bool(self.sslcert) != bool(self.sslkey):
            raise StorageError("PostgreSQL options sslcert and sslkey must be used together")
        if self.connections < 4:
            raise StorageError("PostgreSQL option connections is at least 4")

    @property
    def where(self) -> str:
        """The addresses and the database, for messages."""
        hosts = [host if port is None else f"{host}:{port}" for host, port in self.addresses]
        if not hosts:
            hosts = [f"{self.host or os.environ.get('PGHOST', 'the local socket')}"]
        return f"{','.join(hosts)}/{self.database}"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `asyncpg.connect`. Raises `StorageError` if a file cannot be read."""
        for name in _FILES:
            if path := getattr(self, name):
                _read(name, path)
        tls = {
            name: getattr(self, name)
            for name in ("sslmode", "sslrootcert", "sslcert", "sslkey")
            if getattr(self, name)
        }
        found: dict[str, Any] = {
            # asyncpg accepts the files for TLS only in this form; the other arguments override it.
            "dsn": f"postgresql://?{urlencode(tls)}",
            "database": self.database,
            "target_session_attrs": "read-write",
            "timeout": self.timeout,
        }
        if self.addresses:
            found["host"] = [host for host, _ in self.addresses]
            found["port"] = [port or int(os.environ.get("PGPORT", "5432")) for _, port in self.addresses]
        elif self.host:
            found["host"] = self.host
            if self.port:
                found["port"] = self.port
        if self.user:
            found["user"] = self.user
        if self.passfile:
            found["passfile"] = self.passfile
        if self.password_file:
            found["password"] = _read("password_file", self.password_file).rstrip("\r\n")
        elif self.password_env:
            name = self.password_env
            if name not in os.environ:
                raise StorageError(
                    f"the environment variable {name} (PostgreSQL option password_env) is not set"
                )
            found["password"] = os.environ[name]
        return found


def _address(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, ""
    if not host or (port and not (port.isdecimal() and 0 < int(port) < 65536)) or (colon and text[-1] == ":"):
        raise StorageError(f"{text!r} is not a PostgreSQL address; use HOST:PORT")
    return unquote(host).strip("[]"), int(port) if port else None


def _value(name: str, text: str) -> object:
    if name in _SECONDS:
        try:
            return float(text)
        except ValueError:
            raise StorageError(f"PostgreSQL option {name} is a number of seconds, not {text!r}") from None
    if name in ("port", "connections"):
        if not text.isdecimal():
            raise StorageError(f"PostgreSQL option {name} is a number, not {text!r}")
        return int(text)
    return text


def _read(option: str, path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise StorageError(f"cannot read {path} (PostgreSQL option {option}): {error.strerror}") from error
