"""Validation of a ruleset, on disk or with changed files: what the engine reports, and which changes break it."""

import hashlib
import threading
from collections.abc import Sequence, Set

from secmon.cluster.node import Changed, Finding
from secmon.common.errors import ConfigError, os_text
from secmon.common.paths import Paths
from secmon.config.main import parse_main_config
from secmon.config.xml import parse_xml
from secmon.engine.ruleset.compiled import RulesetSettings
from secmon.engine.ruleset.diagnostics import RulesetError
from secmon.engine.ruleset.load_cache import LoadCache
from secmon.engine.ruleset.ruleset_section import read_section
from secmon.engine.ruleset.sources import NO_CHANGE, Sources, collect, compile_sources, settings_of

CACHE_SIZE = 4
"""Rulesets whose findings are cached: validations come often, changes do not."""
MAX_BROKEN = 5
"""Broken files that are searched for. A load ends at the first error, so each costs a load."""


class RulesetValidator:
    """For the installation at ``paths``. Any method may be called from any thread; all take seconds at worst."""

    def __init__(self, paths: Paths, cache: LoadCache | None = None) -> None:
        """Reads nothing yet. ``cache``: of other loads of this installation."""
        self._paths = paths
        self._config = str(paths.main_config.relative_to(paths.root))
        self._compiling = threading.Lock()
        self._findings: dict[bytes, Sequence[Finding]] = {}
        self._cache = cache or LoadCache()

    def findings(self, changed: Changed = NO_CHANGE) -> Sequence[Finding]:
        """See ``cluster.node.RulesetValidation``."""
        try:
            with self._compiling:  # one at a time: each keeps a processor busy
                sources, settings = self._sources(changed)
                content = _digest(sources, settings)
                if content not in self._findings:
                    while len(self._findings) >= CACHE_SIZE:
                        del self._findings[next(iter(self._findings))]
                    self._findings[content] = self._compiled(sources, settings)
                return self._findings[content]
        except RulesetError as error:
            return [Finding(True, str(error.message), error.message.file)]
        except (ConfigError, OSError) as error:
            return [Finding(True, os_text(error) if isinstance(error, OSError) else error.message, "")]

    def blocking_error(self, changed: Changed) -> Finding | None:
        """See ``cluster.node.RulesetValidation``.

        A broken ruleset may change as long as no further file breaks, so that it can be repaired file by file. Where
        MAX_BROKEN files or more are broken, every change is accepted.
        """
        error = self._error(changed)
        if error is None or self._error(NO_CHANGE) is None:
            return error
        before = self._broken(NO_CHANGE)
        known: Set[str] = {one.file for one in before}
        if len(before) >= MAX_BROKEN:
            return None
        return next((one for one in self._broken(changed) if one.file not in known), None)

    def _error(self, changed: Changed) -> Finding | None:
        return next((one for one in self.findings(changed) if one.error), None)

    def _broken(self, changed: Changed) -> list[Finding]:
        """The first error of each broken file. A broken file is removed to find the next one."""
        found: list[Finding] = []
        while len(found) < MAX_BROKEN and (error := self._error(changed)) is not None:
            found.append(error)
            if not error.file or (error.file in changed and changed[error.file] is None):
                break
            changed = {**changed, error.file: None}
        return found

    def _compiled(self, sources: Sources, settings: RulesetSettings) -> Sequence[Finding]:
        try:
            made = compile_sources(sources, settings, cache=self._cache)
        except RulesetError as error:
            return [Finding(True, str(error.message), error.message.file)]
        return [Finding(False, str(message), message.file) for message in made.messages]

    def _sources(self, changed: Changed) -> tuple[Sources, RulesetSettings]:
        """Raises RulesetError, ConfigError, OSError."""
        config = changed.get(self._config)
        if config is None:
            config = self._paths.main_config.read_bytes()
        name = str(self._paths.main_config)
        section = read_section(parse_xml(config, name, code=1101), name)
        return collect(self._paths.root, section, changed), settings_of(self._paths, parse_main_config(config, name))


def _digest(sources: Sources, settings: RulesetSettings) -> bytes:
    """Digest of everything that a load depends on."""
    whole = hashlib.blake2b(repr((settings, [str(one) for one in sources.messages])).encode())
    for path, data in (*sources.decoders, *sources.lists.items(), *sources.rules):
        whole.update(f"{path} {len(data)}\n".encode() + data)
    return whole.digest()
