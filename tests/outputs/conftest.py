"""Alert files, and deliveries that do not wait long before they try again."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from secmon.common.clock import SystemClock
from secmon.common.self_signed import self_signed
from secmon.outputs import delivery, follower
from secmon.outputs.mail import mail_delivery
from tests.outputs.alert_files import AlertFiles


@pytest.fixture
def files(tmp_path: Path) -> Iterator[AlertFiles]:
    made = AlertFiles(tmp_path)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "RETRY_SECONDS", 0.02)
    for module in (delivery, mail_delivery):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.02)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.1)


class Certificate(NamedTuple):
    """Of a receiver at 127.0.0.1: its file, and the context of its server."""

    file: Path
    server: ssl.SSLContext


@pytest.fixture(scope="package")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("tls")
    key, made = self_signed("collector.example", SystemClock())
    (folder / "key.pem").write_bytes(key)
    (folder / "cert.pem").write_bytes(made)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return Certificate(folder / "cert.pem", context)
