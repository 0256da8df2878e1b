"""What opens an archive, and what does not."""

import base64
import io
import os
import subprocess
from pathlib import Path

import pytest
from pyrage import x25519

from secmon.backup.encryption import (
    Seal,
    decrypt,
    encrypt,
    passphrase_identity,
    passphrase_seal,
    private_key,
    public_key_seal,
    read_head,
)
from secmon.backup.fault import BackupError
from tests.filelimit import file_size_limit

PLAIN = os.urandom(300_000)


def sealed(seal: Seal) -> bytes:
    out = io.BytesIO()
    encrypt(io.BytesIO(PLAIN), out, seal)
    return out.getvalue()


def opened(data: bytes, key: x25519.Identity) -> bytes:
    archive, out = io.BytesIO(data), io.BytesIO()
    read_head(archive)
    decrypt(archive, out, key)
    return out.getvalue()


def test_a_passphrase_opens_what_it_closed_and_no_other_does() -> None:
    data = sealed(passphrase_seal("correct horse battery"))
    archive, out = io.BytesIO(data), io.BytesIO()
    head = read_head(archive)
    with pytest.raises(BackupError, match="the passphrase is wrong"):
        passphrase_identity(head, "correct horse")
    decrypt(archive, out, passphrase_identity(head, "correct horse battery"))
    assert out.getvalue() == PLAIN
    with pytest.raises(BackupError, match="the passphrase is wrong"):
        passphrase_identity(head.replace(b"A", b"B"), "correct horse battery")
    lines = head.split(b"\n")
    rounds = base64.b64encode(base64.b64decode(b"".join(lines[1:-2])).replace(b"\0\0\0\x40", b"\1\0\0\0", 1))
    with pytest.raises(BackupError, match="would take hours"):
        passphrase_identity(b"\n".join([lines[0], rounds, *lines[-2:]]), "correct horse battery")
    with pytest.raises(BackupError, match="shorter than 12"):
        passphrase_seal("short")


def test_keys_of_age_and_ssh(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    age = x25519.Identity.generate()
    seal = public_key_seal(f"# ours\n{age.to_public()}\n\n{(tmp_path / 'key.pub').read_text()}")
    data = sealed(seal)
    for key in (seal.identity, private_key((tmp_path / "key").read_bytes()), private_key(f"# x\n{age}\n".encode())):
        assert opened(data, key) == PLAIN  # type: ignore[arg-type]
    with pytest.raises(BackupError, match="the key does not open the file"):
        opened(data, x25519.Identity.generate())


def test_bad_keys_are_named_and_never_shown() -> None:
    with pytest.raises(BackupError, match="line 2 is no public key"):
        public_key_seal("# comment\nssh-ed25519 nonsense\n")
    with pytest.raises(BackupError, match="holds no public key"):
        public_key_seal("\n# nothing\n")
    with pytest.raises(BackupError, match="holds no private key") as caught:
        private_key(b"AGE-SECRET-KEY-1SECRETSECRET")
    assert "SECRETSECRET" not in str(caught.value)


def test_an_archive_that_is_cut_or_changed_is_refused() -> None:
    seal = public_key_seal(str(x25519.Identity.generate().to_public()))
    data = sealed(seal)
    assert isinstance(seal.identity, x25519.Identity)
    for end in (len(data) - 1, len(data) // 2, 40, 10):
        with pytest.raises(BackupError):
            opened(data[:end], seal.identity)
    for place in (30, 500, len(data) // 2, len(data) - 1):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(BackupError):
            opened(bytes(changed), seal.identity)
    with pytest.raises(BackupError, match="no backup of secmon"):
        opened(b"PK\3\4 something else", seal.identity)
    with pytest.raises(BackupError, match="its key does not end"):
        opened(b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + b"A" * 9000, seal.identity)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    seal = public_key_seal(str(x25519.Identity.generate().to_public()))
    with file_size_limit(100_000), open(tmp_path / "file", "wb", buffering=0) as file, pytest.raises(OSError) as caught:
        encrypt(io.BytesIO(PLAIN), file, seal)
    assert caught.value.strerror == "File too large"
