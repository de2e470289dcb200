"""A private PostgreSQL server on loopback, for benchmarks and tests.

PostgreSQL does not run as root: as root, the server runs as the user `postgres`, or as the one without any
permissions. Its directory is in the temporary directory of the system, where that user can reach it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from bench import Unavailable
from bench._ports import unused_port

_START_TIMEOUT = 60
_UNPRIVILEGED = 65534
DATABASE = "postgres"
USER = "kubewright"


def find_binaries() -> Path:
    """Return the directory of `initdb` and `postgres`; raises `Unavailable`."""
    found = shutil.which("initdb")
    if found is not None and (Path(found).resolve().parent / "postgres").exists():
        return Path(found).resolve().parent
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True
    )
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise Unavailable("PostgreSQL is not installed (Debian: apt-get install postgresql)")


def _unprivileged_user() -> pwd.struct_passwd | None:
    """Return the user of the server; `None`: that of this process."""
    if os.geteuid() != 0:
        return None
    users = {user.pw_name: user for user in pwd.getpwall()}
    unprivileged = [user for user in users.values() if user.pw_uid == _UNPRIVILEGED]
    for user in (users.get("postgres"), *unprivileged):
        if user is not None:
            return user
    raise Unavailable("PostgreSQL does not run as root; run as another user, or create the user postgres")


class PostgreSQLServer:
    """A server that can be killed, paused and started again on the same data and port."""

    def __init__(self, *settings: str, fsync: bool = False, primary: PostgreSQLServer | None = None) -> None:
        """Create the data of a server: empty, or that of a standby of `primary`, which is running."""
        self.binaries = find_binaries()
        self._user = _unprivileged_user()
        self._settings = [*settings, f"fsync={'on' if fsync else 'off'}"]
        self.directory = Path(tempfile.mkdtemp(prefix="kubewright-postgresql-"))
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        self.port = unused_port()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self.own(self.directory)
            if primary is None:
                self.run(
                    *("initdb", "--auth=trust", f"--username={USER}", "--encoding=UTF8", "--no-locale"),
                    *("--no-sync", "--pgdata", str(self.data)),
                )
            else:
                source = f"host=127.0.0.1 port={primary.port} user={USER}"
                self.run(
                    *("pg_basebackup", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
                    *("--dbname", source, "--pgdata", str(self.data)),
                )
        except BaseException:
            self.remove()
            raise

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def url(self, schema: str, options: str = "", *, address: str = "") -> str:
        """Return the storage URL of a schema."""
        query = f"schema={schema}" + (f"&{options}" if options else "")
        return f"postgresql://{USER}@{address or self.address}/{DATABASE}?{query}"

    def own(self, path: Path) -> None:
        """Make a file or directory belong to the user of the server."""
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of PostgreSQL as the user of the server; returns its output."""
        done = subprocess.run(
            [str(self.binaries / program), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.directory,
            check=False,
            text=True,
            **self._as_user(),
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{done.stdout}")
        return done.stdout

    def execute(self, statement: str, *, database: str = DATABASE) -> str:
        """Run SQL with psql; returns the result without headings."""
        psql = shutil.which("psql") or str(self.binaries / "psql")
        done = subprocess.run(
            [
                *(psql, "-X", "-At", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(self.port)),
                *("-U", USER, "-d", database, "-c", statement),
            ],
            capture_output=True,
            check=True,
            text=True,
        )
        return done.stdout.strip()

    def _as_user(self) -> dict[str, int | list[int]]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        settings = [
            *(f"port={self.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.directory}"),
            *("max_connections=60", "log_min_messages=fatal", *self._settings),
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.binaries / "postgres"), "-D", str(self.data)]
                + [word for setting in settings for word in ("-c", setting)],
                stdout=log,
                stderr=log,
                cwd=self.directory,
                **self._as_user(),  # type: ignore[arg-type]
            )
        deadline = time.monotonic() + _START_TIMEOUT
        while not self._is_ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"PostgreSQL has ended:\n{self.log.read_text()[-3000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL did not start in time")
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        """Whether the server accepts connections; the last field of this file is its state."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[7].strip() in ("ready", "standby")

    def kill(self) -> None:
        """End all processes of the server immediately, as a crash does; the next start recovers the data."""
        if self.process is not None:
            self.send(signal.SIGCONT)
            self.process.send_signal(signal.SIGQUIT)
            while self.process.poll() is None:
                try:
                    self.process.wait(0.5)
                except subprocess.TimeoutExpired:
                    # A process for a connection that was accepted meanwhile receives no signal: it waits for
                    # the first message of its client, for a minute.
                    self._send_to_children(signal.SIGKILL)
            self.process = None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the server: first to the one that starts the others."""
        assert self.process is not None
        self.process.send_signal(number)
        self._send_to_children(number)

    def _send_to_children(self, number: signal.Signals) -> None:
        assert self.process is not None
        for each in self.children():
            try:
                os.kill(each, number)
            except ProcessLookupError:
                pass

    def children(self) -> list[int]:
        """Processes of the server except the first."""
        assert self.process is not None
        return _children(self.process.pid)

    def cpu(self) -> float:
        """CPU seconds of all processes of the server so far."""
        assert self.process is not None
        # Of processes that have ended, the first process has the time.
        total = sum(map(int, _stat(self.process.pid)[11:15]))
        for each in self.children():
            total += sum(map(int, _stat(each)[11:13]))
        return total / os.sysconf("SC_CLK_TCK")

    def remove(self) -> None:
        """Kill the server and delete its files."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def _stat(process: int) -> list[str]:
    """Fields of a process after its name; none if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _children(process: int) -> list[int]:
    """Processes that a process has started.

    The kernel has a file with them, but it can omit some while others end.
    """
    return [
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdecimal() and _stat(int(path.name))[1:2] == [str(process)]
    ]
