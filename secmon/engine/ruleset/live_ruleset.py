"""The live ruleset, and its replacement when files change (ruleset.md 1; analysis-api.md 9).

A ruleset that does not compile never replaces one that does. The sources of the last good ruleset are kept on disk: a
daemon that starts on broken files uses those, and logs it, so that the node is not left without analysis.
"""

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from secmon.common.clock import Clock, iso_z
from secmon.common.errors import ConfigError, os_text
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.config.xml import read_xml
from secmon.engine.ruleset.compiled import Ruleset, RulesetSettings, compile_ruleset
from secmon.engine.ruleset.diagnostics import Message, RulesetError
from secmon.engine.ruleset.last_good import LAST_GOOD, DamagedCopy, keep_copy, read_copy
from secmon.engine.ruleset.load_cache import LoadCache
from secmon.engine.ruleset.ruleset_section import RulesetSection, read_section
from secmon.engine.ruleset.sources import Sources, collect, settings_of

log = logging.getLogger("secmon.analysisd")

RulesetState = Literal["current", "rejected", "last_good"]
"""``current``: the files on disk are live; ``rejected``: they do not compile and the previous ones are live;
``last_good``: they did not compile at the start and the copy of an earlier process is live."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A ruleset with its sources, and the digest of these and its settings."""

    digest: str
    ruleset: Ruleset
    sources: Sources


class LiveRuleset:
    """Any method may be called from any thread; those that read files or compile block, for seconds at worst."""

    def __init__(self, paths: Paths, clock: Clock) -> None:
        self._paths = paths
        self._copy = paths.root / LAST_GOOD
        self._clock = clock
        self._lock = threading.Lock()
        self.cache = LoadCache()
        """Also for validations of this installation: what they have read need not be read again."""
        self._section: RulesetSection | None = None
        self._settings = RulesetSettings()
        self._current: Compiled | None = None
        self._rejected = ""
        self._state: RulesetState = "current"
        self._error: Message | None = None
        self._since = clock.now()
        self.swaps = 0
        self.rejections = 0

    @property
    def current(self) -> Compiled:
        """The live ruleset. Call :meth:`start` before."""
        assert self._current is not None, "started first"
        return self._current

    @property
    def state(self) -> RulesetState:
        return self._state

    def start(self) -> Compiled:
        """Load the first ruleset. Raises RulesetError when neither the files nor the last good copy compile."""
        with self._lock:
            try:
                sources = self._collect()
                made = self._compile(sources, self._settings)
            except (RulesetError, ConfigError, OSError) as error:
                self._reject(_message(error))
                made = self._last_good()
                self._state = "last_good"
                log.error("The last good ruleset is used until the files are repaired")
                self._use(made)
            else:
                self._accept(made, sources)
            return made

    def refresh(self, *, configuration: bool = False) -> Compiled | None:
        """Read the files, and with ``configuration`` the section that names them; the new ruleset if they changed."""
        with self._lock:
            try:
                if configuration:
                    self._read_configuration()
                sources = self._collect()
                digest = digest_of(sources, self._settings)
                if digest == self.current.digest:
                    if self._state != "current":
                        self._restored()
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
        """The ruleset of the files as they are now, for a logtest session. ``known`` finds a compiled one by digest.

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

    def close(self) -> None:
        """Remove the status file. After a refused start it stays, with the reason."""
        if self._current is not None:
            self._paths.ruleset_status.unlink(missing_ok=True)

    def status(self) -> dict[str, Any]:
        """The content of the status file."""
        ruleset = self.current.ruleset
        return {
            "status": self._state,
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

    def _compile(self, sources: Sources, settings: RulesetSettings) -> Compiled:
        made = compile_ruleset(sources.decoders, sources.lists, sources.rules, settings, cache=self.cache)
        whole = replace(made, messages=(*sources.messages, *made.messages))
        return Compiled(digest_of(sources, settings), whole, sources)

    def _accept(self, made: Compiled, sources: Sources) -> None:
        self._state, self._error, self._rejected = "current", None, ""
        for message in made.ruleset.messages:
            log.warning("%s", message.detail())
        self._use(made)
        self._keep_copy(sources)
        log.info("The ruleset is live: %d rules", len(made.ruleset.rules.by_id))

    def _use(self, made: Compiled) -> None:
        self._current, self._since = made, self._clock.now()
        self.swaps += 1
        self._publish()

    def _restored(self) -> None:
        """The files on disk are the live ones again."""
        self._state, self._error, self._rejected = "current", None, ""
        log.info("The ruleset files on disk are the live ones again")
        self._publish()

    def _reject(self, error: Message) -> None:
        if error == self._error:
            return
        self._error = error
        self.rejections += 1
        log.error("The ruleset does not load: %s", error.detail())
        if self._current is not None:
            self._state = "rejected" if self._state == "current" else self._state
            log.error("The previous ruleset stays live")
            self._publish()

    def _publish(self) -> None:
        self._write_status(self.status())

    def _write_status(self, status: Mapping[str, Any]) -> None:
        try:
            write_file(self._paths.ruleset_status, msgspec.json.encode(status), 0o660)
        except OSError as error:
            log.error("The status of the ruleset cannot be written: %s", os_text(error))

    def _keep_copy(self, sources: Sources) -> None:
        try:
            keep_copy(self._copy, sources, self._settings)
        except OSError as error:
            log.error("The copy of the ruleset cannot be written: %s", os_text(error))

    def _last_good(self) -> Compiled:
        assert self._error is not None, "the files were rejected"
        try:
            return self._compile(*read_copy(self._copy))
        except DamagedCopy as error:
            log.error(
                "The copy of the last good ruleset, %s, is damaged and is not used: %s. Repair the ruleset file "
                "that is named above, or restore it from a backup, and start again: a new copy is then written",
                self._copy,
                error,
            )
        except (OSError, RulesetError) as error:
            log.error("There is no usable copy of an earlier ruleset: %s", error)
        one = self._error
        self._write_status({"status": "refused", "error": _shown(one)})
        raise RulesetError(one.number, one.text, file=one.file, line=one.line)


def digest_of(sources: Sources, settings: RulesetSettings) -> str:
    """Identifies a ruleset by its sources and settings."""
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
