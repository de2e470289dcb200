"""Drop-in for kube-apiserver: the API server of Kubewright with the flags of kube-apiserver.

It runs what the kube-apiserver process runs: no controller manager, no scheduler, no nodes. Data is stored
where the etcd stand-in, or a real etcd, of `--etcd-servers` stores it. It stops on SIGTERM and SIGINT.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from kubewright.manager.observability.log_handler import LazyLogHandler

from .flags import FlagError, mentions_flag, parse_flags
from .kube_apiserver_flags import ABBREVIATIONS, OTHER_NAMES, TYPES, help_text
from .settings import ServerSettings, selected_version, translate

STORE_TIMEOUT = 5.0
"""Seconds in which another API server must release the store, such as one that is still stopping."""

STOP_TIMEOUT = 2.0
"""Seconds for requests in flight after SIGTERM; the process exits then in any case."""


class StartError(Exception):
    """The server cannot start; the text is for the user."""


class LogHandler(LazyLogHandler):
    """Failed health checks are expected until the server is ready, and not logged."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a record."""
        return self.is_ready or record.msg != "health check failed"


def _print(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def version_text() -> str:
    """Return the line of `--version`, in the form of kube-apiserver."""
    from kubewright.apiserver.version_info import VersionInfo

    return f"Kubernetes {VersionInfo.of(selected_version()).git_version}\n"


async def serve(settings: ServerSettings, log: LogHandler) -> None:
    """Run the server until a signal arrives; raises `StartError`."""
    from kubewright.apiserver.shutdown import StopSignals
    from kubewright.controlplane.plane import ControlPlane
    from kubewright.storage import StorageError
    from kubewright.storage.sqlite.store_lock import StoreInUse

    from .etcd_connection import EtcdUnavailable, open_etcd

    signals = StopSignals()
    deadline = time.monotonic() + STORE_TIMEOUT
    while True:
        try:
            plane = ControlPlane.from_options(replace(settings.options, store=await open_etcd(settings.etcd)))
            plane.server.flags = settings.flags
            await plane.start()
            break
        except StoreInUse as error:
            if time.monotonic() >= deadline:
                raise StartError(
                    f"{error}; the etcd stand-in serves one API server per --etcd-prefix at a time, "
                    "use a real etcd for several"
                ) from None
            await asyncio.sleep(0.05)
        except EtcdUnavailable as error:
            raise StartError(str(error)) from None
        except StorageError as error:
            raise StartError(f"cannot open the store: {error}") from None
        except OSError as error:
            why = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
            raise StartError(why) from None
        except ValueError as error:
            raise StartError(str(error)) from None
    gc.freeze()
    gc.set_threshold(20_000, 5, 4)
    gc.enable()
    log.is_ready = True
    _print(f"Serving securely on {plane.bind}:{plane.port}")
    await signals.stop.wait()
    await signals.drain(plane.server, settings.options.shutdown_delay_duration)
    try:
        async with asyncio.timeout(STOP_TIMEOUT):
            await plane.stop()
    except TimeoutError:
        _print("requests did not finish before shutdown")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the server of a command line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if mentions_flag(arguments, "--help", "-h"):
        sys.stdout.write(help_text())
        sys.exit(0)
    if mentions_flag(arguments, "--version"):
        try:
            sys.stdout.write(version_text())
        except ValueError as error:
            _exit(str(error))
        sys.exit(0)
    log = LogHandler()
    logging.getLogger().addHandler(log)
    gc.disable()  # the start-up creates hardly any garbage; `serve` enables it again
    try:
        settings = translate(
            parse_flags(arguments, TYPES, abbreviations=ABBREVIATIONS, other_names=OTHER_NAMES)
        )
        log.is_json = settings.options.log_format == "json"
        logging.getLogger("kubewright").setLevel(settings.options.log_level)
        for warning in settings.warnings:
            _print(f"Warning: {warning}")
        from kubewright.apiserver.http.server import run

        run(lambda: serve(settings, log))
    except OSError as error:
        _exit(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (FlagError, StartError, ValueError) as error:
        _exit(str(error))
    sys.stderr.flush()
    os._exit(0)  # nothing is left to write, and the interpreter takes a while to clean up


def _exit(message: str) -> NoReturn:
    _print(f"Error: {message}")
    sys.exit(1)


if __name__ == "__main__":
    main()
