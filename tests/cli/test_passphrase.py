"""The pass phrase prompt, on a real terminal."""

import os
import pty
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

PHRASE = "open sesame"
SCRIPT = (
    "import sys; from pathlib import Path; from secmon.cli.passphrase import ask_passphrase;"
    "print('GOT', len(ask_passphrase(Path(sys.argv[1]).parent, Path(sys.argv[1]))))"
)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    private = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path / "server.key"
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PHRASE.encode())))
    return path


def on_a_terminal(key: Path, answers: list[str]) -> str:
    """What a terminal shows while ``answers`` are typed, each at its prompt."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", SCRIPT, str(key)])
    shown, waiting = b"", list(answers)
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the child has closed its end
            break
        if not piece:
            break
        shown += piece
        if waiting and shown.count(b"Pass phrase of") > len(answers) - len(waiting):
            os.write(terminal, waiting.pop(0).encode() + b"\n")
    os.waitpid(pid, 0)
    os.close(terminal)
    return shown.decode()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_right_phrase_is_taken_and_never_shown(key: Path) -> None:
    shown = on_a_terminal(key, [PHRASE])
    assert f"GOT {len(PHRASE)}" in shown
    assert PHRASE not in shown


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_wrong_phrases_are_asked_for_again_three_times(key: Path) -> None:
    shown = on_a_terminal(key, ["wrong", PHRASE])
    assert "That pass phrase does not open the key." in shown
    assert f"GOT {len(PHRASE)}" in shown
    assert "wrong pass phrase for" in on_a_terminal(key, ["a", "b", "c"])
