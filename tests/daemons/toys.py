"""Daemons that do little, for tests of what runs them. Files below the installation folder control them."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from secmon.common.background import Background
from secmon.common.errors import ConfigError, SecmonError
from secmon.daemons.daemon import Context


class Toy:
    """Serves nothing. Files in the root steer it: ``<name>.fail`` its start, ``.stubborn`` its end, ``.quit`` it;
    what ``.quit`` holds says in which way its work ends."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._builder = os.getuid()
        self._reloads = 0
        self.tasks = Background()

    @property
    def name(self) -> str:
        return self._context.name

    def _requested(self, what: str) -> bool:
        return (self._context.paths.root / f"{self.name}.{what}").exists()

    def note(self, what: str) -> None:
        """Append a line to the journal that tests read."""
        with (self._context.paths.root / "journal").open("a") as journal:
            journal.write(f"{self.name} {what} {os.getpid()}\n")

    async def start(self) -> None:
        if self._requested("fail"):
            raise ConfigError("toy.yaml", "port", 0, "1 to 65535")
        if self._requested("busy"):
            raise SecmonError(2010, "port 1: busy")
        if self._requested("hang"):
            await asyncio.Event().wait()
        self.note("start")

    async def finished(self) -> None:
        while not self._requested("quit"):  # noqa: ASYNC110 - a file cannot set an event
            await asyncio.sleep(0.02)
        match (self._context.paths.root / f"{self.name}.quit").read_text():
            case "return":
                return
            case "cancellation":
                inner = asyncio.get_running_loop().create_future()
                inner.cancel()
                await inner
        raise RuntimeError("told to quit")

    async def stop(self) -> None:
        if self._requested("stubborn"):
            await asyncio.Event().wait()
        self.note("stop")

    async def reload(self) -> None:
        if self._requested("badconfig"):
            raise ConfigError("toy.yaml", "port", 0, "1 to 65535")
        self._reloads += 1
        self.note("reload")

    def counters(self) -> Mapping[str, Any]:
        return {"reloads": self._reloads, "uid": os.getuid(), "builder": self._builder, "groups": os.getgroups()}

    def active_config(self) -> Mapping[str, Any]:
        return {"toy": {"secrets": sorted(self._context.secrets), "single": self._context.single_process}}


def build(context: Context) -> Toy:
    return Toy(context)
