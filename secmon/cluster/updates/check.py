"""Asking for newer versions, on the master, and what was answered last (manager.md 13.2).

Whom to ask is configured: ``global/update_check_url`` names a JSON document, and all that is sent is a GET for it with
the product's name and version and the installation's id.
"""

import asyncio
import os
import secrets
import ssl
from contextlib import suppress
from datetime import datetime
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct

from secmon.cluster.updates.releases import Releases, read_releases
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.download import DownloadError, download
from secmon.common.errors import SecmonError, os_text
from secmon.common.file_io import sync_folder, write_file
from secmon.common.paths import Paths
from secmon.config.main import MainConfig
from secmon.config.validation import ADDRESS

ID_HEADER = "secmon-installation"
MAX_BYTES = 1 << 20
"""Of the list of releases."""

_UID_BYTES = 100


class UpdateSettings(Struct, frozen=True, kw_only=True):
    """Options ``update_check`` and ``update_check_url`` of the section ``global``.

    ``url``: address of the list of releases; empty where none is configured, or one that is not valid.
    """

    enabled: bool = False
    url: str = ""


def read_updates(config: MainConfig) -> UpdateSettings:
    """The values in force. The default is no check: the product has no update service of its own."""
    url = config.text("global", "update_check_url")
    return UpdateSettings(
        enabled=config.flag("global", "update_check", default=False), url=url if ADDRESS.test(url) else ""
    )


class UpdateAnswer(Struct, frozen=True, kw_only=True):
    """What the service at ``url`` answered at ``asked_at``."""

    url: str
    asked_at: datetime
    releases: Releases


class UpdateService:
    """The client of the update service. Its whole answer is stored: an upgrade changes which releases are newer."""

    def __init__(
        self, paths: Paths, settings: UpdateSettings, *, clock: Clock, counters: Counters,
        trust: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        """``trust`` as in ``download``."""
        self.settings = settings
        self._paths, self._clock, self._counters, self._trust = paths, clock, counters, trust

    async def fetch(self, seconds: float) -> UpdateAnswer:
        """Fetch the releases within ``seconds`` and store them. Raises 2100 for any failure of the service, 1005."""
        url = self.settings.url
        headers = {ID_HEADER: await asyncio.to_thread(installation_id, self._paths)}
        try:
            if not url:
                raise DownloadError("update_check_url is missing or no address")
            data = await download(url, limit=MAX_BYTES, seconds=seconds, trust=self._trust, headers=headers)
            releases = await asyncio.to_thread(read_releases, data)
        except (DownloadError, ValueError) as error:
            self._counters.add("updates.failed")
            raise SecmonError(2100, str(error)) from None
        answer = UpdateAnswer(url=url, asked_at=self._clock.now(), releases=releases)
        await asyncio.to_thread(self._keep, answer)
        self._counters.add("updates.asked")
        return answer

    def last(self) -> UpdateAnswer | None:
        """The last answer of the service that is configured now. Raises 1005."""
        try:
            answer = msgspec.json.decode(self._paths.newer_versions.read_bytes(), type=UpdateAnswer)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SecmonError(1005, os_text(error)) from None
        except (ValueError, RecursionError):  # damaged: the next answer takes its place
            return None
        return answer if answer.url == self.settings.url else None

    def _keep(self, answer: UpdateAnswer) -> None:
        try:
            write_file(self._paths.newer_versions, msgspec.json.encode(answer))
        except OSError as error:
            raise SecmonError(1005, os_text(error)) from None


def installation_id(paths: Paths) -> str:
    """The id of this installation; the first call makes it, and of several at once one. Raises 1005."""
    try:
        if not paths.installation_uid.exists():
            _make_id(paths)
        with paths.installation_uid.open("rb") as file:
            return str(UUID(file.read(_UID_BYTES).decode("ascii").strip()))
    except OSError as error:
        raise SecmonError(1005, os_text(error)) from None
    except ValueError:
        raise SecmonError(1005, f"{paths.installation_uid} holds no id; remove it, and a new one is made") from None


def _make_id(paths: Paths) -> None:
    path = paths.installation_uid
    whole = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    write_file(whole, f"{uuid4()}\n".encode(), 0o660)
    try:
        with suppress(FileExistsError):  # another process was quicker
            os.link(whole, path)
    finally:
        whole.unlink()
    sync_folder(path.parent)
