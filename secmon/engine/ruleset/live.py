"""The ruleset in force, and how another one takes its place (ruleset.md 1; analysis-api.md 9).

What cannot be compiled never replaces what works. The sources of the last ruleset that could be are kept: a daemon that
starts on broken files runs with those, and says so, rather than leave a node without analysis.
"""

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from secmon.common.atomic import write_file
from secmon.common.clock import Clock, iso_z
from secmon.common.errors import ConfigError, os_text
from secmon.common.paths import Paths
from secmon.config.xml import read_xml
from secmon.engine.rules.loader import DraftCache
from secmon.engine.ruleset.compiled import Ruleset, Settings, compile_ruleset
from secmon.engine.ruleset.diagnostics import Message, RulesetError
from secmon.engine.ruleset.files import Section, Sources, collect, read_section, settings_of
from secmon.engine.ruleset.last_good import LAST_GOOD, DamagedCopy, keep_copy, read_copy

log = logging.getLogger("secmon.analysisd")

Standing = Literal["current", "rejected", "last_good"]
"""``current``: the files are in force; ``rejected``: the files are broken, those of before are in force; ``last_good``:
the same since the start, with the copy that an earlier process kept."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A ruleset with its sources, and the digest of these and its settings."""

    digest: str
    ruleset: Ruleset
    sources: Sources


class RulesetKeeper:
    """Any method may be called from any thread; those that read files or compile block, for seconds at worst."""

    def __init__(self, paths: Paths, clock: Clock) -> None:
        self._paths = paths
        self._copy = paths.root / LAST_GOOD
        self._clock = clock
        self._lock = threading.Lock()
        self._cache = DraftCache()
        self._section: Section | None = None
        self._settings = Settings()
        self._current: Compiled | None = None
        self._rejected = ""
        self._standing: Standing = "current"
        self._error: Message | None = None
        self._since = clock.now()
        self.swaps = 0
        self.rejections = 0

    @property
    def current(self) -> Compiled:
        """What is in force, once :meth:`start` has returned."""
        assert self._current is not None, "started first"
        return self._current

    @property
    def standing(self) -> Standing:
        return self._standing

    def start(self) -> Compiled:
        """The ruleset to begin with. Raises RulesetError when neither the files nor a kept copy can be used."""
        with self._lock:
            try:
                sources = self._collect()
                made = self._compile(sources, self._settings)
            except (RulesetError, ConfigError, OSError) as error:
                self._reject(_message(error))
                made = self._last_good()
                self._standing = "last_good"
                log.error("The ruleset of the last start that went well is used until the files are mended")
                self._use(made)
            else:
                self._accept(made, sources)
            return made

    def refresh(self, *, configuration: bool = False) -> Compiled | None:
        """Look at the files, and with ``configuration`` at the section that names them too; a ruleset that is new."""
        with self._lock:
            try:
                if configuration:
                    self._read_configuration()
                sources = self._collect()
                digest = digest_of(sources, self._settings)
                if digest == self.current.digest:
                    if self._standing != "current":
                        self._mended()
                    return None
                if digest == self._rejected:
                    return None
                self._rejected = digest
                made = self._compile(sources, self._settings)
            except (RulesetError, ConfigError, OSError) as error:
                self._reject(_message(error))
                return None
            self._accept(made, sources)
            return made

    def latest(self, known: Callable[[str], Compiled | None]) -> Compiled:
        """The ruleset of the files as they are now, for a session; ``known`` finds one by its digest.

        Raises RulesetError, ConfigError, OSError.
        """
        file = self._paths.main_config
        settings = settings_of(self._paths)
        sources = collect(self._paths.root, read_section(read_xml(file), str(file)))
        digest = digest_of(sources, settings)
        current = self._current
        if current is not None and current.digest == digest:
            return current
        found = known(digest)
        if found is None:
            with self._lock:
                found = self._compile(sources, settings)
        return found

    def end(self) -> None:
        """Nothing is in force any more; why a start was refused goes on standing in the status file."""
        if self._current is not None:
            self._paths.ruleset_status.unlink(missing_ok=True)

    def status(self) -> dict[str, Any]:
        """What stands in the status file."""
        ruleset = self.current.ruleset
        return {
            "status": self._standing,
            "since": iso_z(self._since),
            "digest": self.current.digest,
            "rules": len(ruleset.rules.by_id),
            "lists": len(ruleset.lists),
            "warnings": [_shown(one) for one in ruleset.messages],
            "error": _shown(self._error) if self._error is not None else None,
        }

    def _read_configuration(self) -> None:
        file = self._paths.main_config
        section, settings = read_section(read_xml(file), str(file)), settings_of(self._paths)
        self._section, self._settings = section, settings

    def _collect(self) -> Sources:
        if self._section is None:
            self._read_configuration()
        assert self._section is not None, "read just now"
        return collect(self._paths.root, self._section)

    def _compile(self, sources: Sources, settings: Settings) -> Compiled:
        made = compile_ruleset(sources.decoders, sources.lists, sources.rules, settings, cache=self._cache)
        whole = replace(made, messages=(*sources.messages, *made.messages))
        return Compiled(digest_of(sources, settings), whole, sources)

    def _accept(self, made: Compiled, sources: Sources) -> None:
        self._standing, self._error, self._rejected = "current", None, ""
        for message in made.ruleset.messages:
            log.warning("%s", message.told())
        self._use(made)
        self._keep_copy(sources)
        log.info("The ruleset is in force: %d rules", len(made.ruleset.rules.by_id))

    def _use(self, made: Compiled) -> None:
        self._current, self._since = made, self._clock.now()
        self.swaps += 1
        self._publish()

    def _mended(self) -> None:
        """The files are again those in force."""
        self._standing, self._error, self._rejected = "current", None, ""
        log.info("The files of the ruleset are those in force again")
        self._publish()

    def _reject(self, error: Message) -> None:
        if error == self._error:
            return
        self._error = error
        self.rejections += 1
        log.error("The ruleset cannot be used: %s", error.told())
        if self._current is not None:
            self._standing = "rejected" if self._standing == "current" else self._standing
            log.error("The ruleset of before stays in force")
            self._publish()

    def _publish(self) -> None:
        self._write_status(self.status())

    def _write_status(self, status: Mapping[str, Any]) -> None:
        try:
            write_file(self._paths.ruleset_status, msgspec.json.encode(status), 0o660)
        except OSError as error:
            log.error("The status of the ruleset cannot be told: %s", os_text(error))

    def _keep_copy(self, sources: Sources) -> None:
        try:
            keep_copy(self._copy, sources, self._settings)
        except OSError as error:
            log.error("No copy of the ruleset is kept: %s", os_text(error))

    def _last_good(self) -> Compiled:
        assert self._error is not None, "there was a reason to ask"
        try:
            return self._compile(*read_copy(self._copy))
        except DamagedCopy as error:
            log.error(
                "The copy of the last good ruleset, %s, is damaged and is not used: %s. Mend the file of the ruleset "
                "that is named above, or put it back from a backup, and start again: a copy is then kept anew",
                self._copy,
                error,
            )
        except (OSError, RulesetError) as error:
            log.error("There is no copy of an earlier ruleset that could be used instead: %s", error)
        one = self._error
        self._write_status({"status": "refused", "error": _shown(one)})
        raise RulesetError(one.number, one.text, file=one.file, line=one.line)


def digest_of(sources: Sources, settings: Settings) -> str:
    """Tells rulesets apart by what they are made of."""
    made = hashlib.blake2b(repr(settings).encode(), digest_size=16)
    parts: Iterable[Iterable[tuple[str, bytes]]] = (sources.decoders, sources.lists.items(), sources.rules)
    for part in parts:
        made.update(b"\0part")
        for name, data in part:
            made.update(b"%d %d " % (len(name.encode()), len(data)) + name.encode())
            made.update(data)
    return made.hexdigest()


def _message(error: RulesetError | ConfigError | OSError) -> Message:
    if isinstance(error, RulesetError):
        return error.message
    text = os_text(error) if isinstance(error, OSError) else error.message
    return Message("ERROR", 1220, text)


def _shown(message: Message) -> dict[str, Any]:
    return {
        "severity": message.severity,
        "number": message.number,
        "text": message.text,
        "file": message.file,
        "line": message.line,
    }
