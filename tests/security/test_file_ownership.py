"""Files that another user of the machine can write do not become the state of a server."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubewright.cli import main
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.configuration.config_file import ConfigFileError
from kubewright.storage import DamagedStore, SQLiteStorage, StorageError, backup, restore
from kubewright.storage.backups import copy_database
from kubewright.tls.certificates import CertificateAuthority, KeyPair, write_private
from kubewright.trusted_files import ALLOW_SHARED_FILES, UntrustedFile, check_file

OTHER_USER = 54321

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def attack(tmp_path: Path) -> Path:
    """A valid backup with another content than the store."""
    return tmp_path / "attack.backup"


async def _write_backup(target: Path) -> None:
    source = target.with_name("attack.db")
    async with SQLiteStorage(source) as store:
        await store.create("/registry/attack", b"takeover")
    await backup(f"sqlite:{source}", target)


def _open(path: Path) -> SQLiteStorage:
    storage = SQLiteStorage(path)
    storage.maintenance_interval = 3600.0  # the tests call `expire`
    return storage


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("owner", marks=as_root),
        pytest.param("directory owner", marks=as_root),
        "directory",
        "sticky directory",
        "mode",
        "symbolic link",
        "hard link",
    ],
)
async def test_a_request_for_a_restore_that_another_user_can_place_is_rejected(
    tmp_path: Path, attack: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    await _write_backup(attack)
    directory = tmp_path / "data"
    directory.mkdir(mode=0o755)
    path = directory / "state.db"
    async with _open(path) as storage:
        await storage.create("/registry/mine", b"1")
        request = directory / "state.db.restore"
        if place == "symbolic link":
            request.symlink_to(attack)
        elif place == "hard link":
            request.hardlink_to(attack)
        else:
            copy_database(attack, request)
        if place == "owner":
            os.chown(request, OTHER_USER, OTHER_USER)
        elif place == "directory owner":
            os.chown(directory, OTHER_USER, OTHER_USER)
        elif place == "mode":
            request.chmod(0o666)
        elif place == "directory":
            directory.chmod(0o777)
        elif place == "sticky directory":
            directory.chmod(0o1777)
        await storage.expire()
        await storage.expire()
        assert [item.key for item in (await storage.list("/")).items] == ["/registry/mine"]
        assert os.path.lexists(request)
        rejected = [each for each in caplog.records if "rejected a request" in each.message]
        assert len(rejected) == 1, "logged once"
        assert str(request) in rejected[0].reason  # type: ignore[attr-defined]


async def test_a_restore_of_the_owner_is_logged(
    tmp_path: Path, attack: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await _write_backup(attack)
    path = tmp_path / "state.db"
    async with _open(path) as storage:
        await storage.create("/registry/mine", b"1")
        waiting = asyncio.create_task(restore(f"sqlite:{path}", attack))
        async with asyncio.timeout(60):
            while not waiting.done():
                await storage.expire()
                await asyncio.sleep(0.01)
        assert (await waiting).written == 1
        assert [item.key for item in (await storage.list("/")).items] == ["/registry/attack"]
    logged = [each.message for each in caplog.records if "backup" in each.message]
    assert logged == ["restoring a backup", "restored a backup"]


async def test_the_command_does_not_wait_for_a_restore_that_the_server_rejects(
    tmp_path: Path, attack: Path
) -> None:
    await _write_backup(attack)
    directory = tmp_path / "data"
    directory.mkdir()
    path = directory / "state.db"
    async with _open(path) as storage:
        await storage.create("/registry/mine", b"1")
        directory.chmod(0o1777)
        with pytest.raises(
            StorageError, match=r"state\.db\.restore: is in a directory that is writable by every"
        ):
            await restore(f"sqlite:{path}", attack)
    assert not (directory / "state.db.restore").exists()


async def test_a_backup_that_every_user_can_write_is_not_restored(tmp_path: Path, attack: Path) -> None:
    await _write_backup(attack)
    attack.chmod(0o666)
    with pytest.raises(StorageError, match=r"attack\.backup: is writable by every user"):
        await restore(f"sqlite:{tmp_path}/state.db", attack)


@pytest.mark.parametrize("suffix", ["", "-wal", ".mark", ".lock"])
@pytest.mark.parametrize("problem", [pytest.param("owner", marks=as_root), "mode"])
async def test_a_store_with_a_file_of_another_user_is_not_opened(
    tmp_path: Path, suffix: str, problem: str
) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStorage(path) as storage:
        await storage.create("/registry/mine", b"1")
    file = tmp_path / f"state.db{suffix}"
    if not file.exists():
        file.touch(mode=0o600)
    if problem == "owner":
        os.chown(file, OTHER_USER, OTHER_USER)
        expected = f"state.db{suffix}: belongs to user {OTHER_USER}"
    else:
        file.chmod(0o666)
        expected = f"state.db{suffix}: is writable by every user"
    with pytest.raises(StorageError, match=expected):
        await SQLiteStorage(path).open()


async def test_a_store_in_a_directory_of_everyone_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(StorageError, match=r"state\.db: is in a directory that is writable by every user"):
        await SQLiteStorage(directory / "state.db").open()
    monkeypatch.setenv(ALLOW_SHARED_FILES, "true")
    async with SQLiteStorage(directory / "state.db"):
        pass
    monkeypatch.delenv(ALLOW_SHARED_FILES)
    directory.chmod(0o1777)  # as /tmp
    async with SQLiteStorage(directory / "state.db"):
        pass


@pytest.mark.parametrize("lost", ["mark", "empty mark"])
async def test_a_store_that_was_not_closed_needs_its_mark(tmp_path: Path, lost: str) -> None:
    """The write-ahead log with the last changes is lost, and so is the mark."""
    path, mark = tmp_path / "state.db", tmp_path / "state.db.mark"
    async with SQLiteStorage(path) as storage:
        await storage.create("/registry/old", b"1")
    killed = tmp_path / "killed"
    killed.mkdir()
    async with SQLiteStorage(path) as storage:
        for number in range(5):
            last = await storage.create(f"/registry/{number}", b"1")
        (killed / path.name).write_bytes(path.read_bytes())
        (killed / path.name).chmod(0o600)
    if lost == "empty mark":
        (killed / mark.name).touch(mode=0o600)
    with pytest.raises(DamagedStore, match=r"was not closed and state\.db\.mark is missing"):
        await SQLiteStorage(killed / path.name).open()
    async with SQLiteStorage(killed / path.name, accept_data_loss=True) as storage:
        assert [item.key for item in (await storage.list("/")).items] == ["/registry/old"]
        assert await storage.revision() > last, "no revision is used twice"


async def test_a_store_that_was_closed_can_be_moved_without_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStorage(path) as storage:
        await storage.create("/registry/mine", b"1")
        await backup(f"sqlite:{path}", tmp_path / "copy.db")
    (tmp_path / "state.db.mark").unlink()
    for file in (path, tmp_path / "copy.db"):
        async with SQLiteStorage(file) as storage:
            assert len((await storage.list("/")).items) == 1
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT value FROM facts WHERE name = 'opened'").fetchone() == (0,)


def test_private_files_are_not_written_where_others_can_replace_them(tmp_path: Path) -> None:
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(UntrustedFile, match="is in a directory that is writable by every user"):
        write_private(directory / "kubeconfig", b"secret")
    assert [*directory.iterdir()] == []


@as_root
async def test_certificates_of_another_user_are_not_served(tmp_path: Path) -> None:
    pair = CertificateAuthority.create().issue("attack", hosts=["localhost"], server=True)
    pair.write(tmp_path / "apiserver.crt", tmp_path / "apiserver.key")
    assert (tmp_path / "apiserver.crt").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "apiserver.key").stat().st_mode & 0o777 == 0o600
    os.chown(tmp_path / "apiserver.key", OTHER_USER, OTHER_USER)
    with pytest.raises(OSError, match=rf"apiserver\.key: belongs to user {OTHER_USER}"):
        async with ControlPlane(cert_dir=tmp_path, controllers=False):
            pass
    # Files that are named in options can be mounted into a container, and have any owner.
    assert KeyPair.from_files(tmp_path / "apiserver.crt", tmp_path / "apiserver.key") == pair
    (tmp_path / "apiserver.key").chmod(0o666)
    with pytest.raises(UntrustedFile, match="is writable by every user"):
        KeyPair.from_files(tmp_path / "apiserver.crt", tmp_path / "apiserver.key")


def test_trusted_configuration_is_not_writable_by_everyone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    file.chmod(0o666)
    for option in ("token_auth_file", "service_account_signing_key_file", "authorization_config"):
        with pytest.raises((UntrustedFile, ConfigFileError), match="is writable by every user"):
            ControlPlane(**{option: file})


def test_up_and_run_reject_a_kubeconfig_that_another_user_can_replace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o777)
    result = CliRunner().invoke(main, ["up"])
    assert result.exit_code == 1
    assert "Error: kubeconfig: is in a directory that is writable by every user" in result.output
    assert [*tmp_path.iterdir()] == []


def test_a_group_without_other_members_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a umask of 002 and a private group, or a volume with an fsGroup."""
    import grp
    import pwd

    from kubewright import trusted_files

    file = tmp_path / "file"
    file.touch()
    file.chmod(0o664)
    check_file(file)
    me = os.geteuid()

    class User:
        pw_uid, pw_gid, pw_name = me + 1000, file.stat().st_gid, "other"

    monkeypatch.setattr(pwd, "getpwall", lambda: [User])
    monkeypatch.setattr(pwd, "getpwuid", lambda number: User)
    monkeypatch.setattr(grp, "getgrgid", lambda number: (_ for _ in ()).throw(KeyError(number)))
    trusted_files._members.cache_clear()
    try:
        with pytest.raises(UntrustedFile, match=r"is writable by group \d+ with user other"):
            check_file(file)
    finally:
        trusted_files._members.cache_clear()


@as_root
def test_the_user_of_sudo_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    os.chown(file, OTHER_USER, OTHER_USER)
    with pytest.raises(UntrustedFile):
        check_file(file)
    monkeypatch.setenv("SUDO_UID", str(OTHER_USER))
    check_file(file)


@as_root
def test_a_symbolic_link_of_another_user_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    link = tmp_path / "state.db.lock"
    link.symlink_to(tmp_path / "mine")
    check_file(link)
    os.chown(link, OTHER_USER, OTHER_USER, follow_symlinks=False)
    with pytest.raises(UntrustedFile, match=f"belongs to user {OTHER_USER}"):
        check_file(link)
