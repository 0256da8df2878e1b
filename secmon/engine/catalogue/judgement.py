"""What the engine would say of a ruleset, on disk or with other files, and which changes would break it."""

import hashlib
import threading
from collections.abc import Sequence, Set

from secmon.cluster.node import Changed, Finding
from secmon.common.errors import ConfigError, os_text
from secmon.common.paths import Paths
from secmon.config.main import parse_main_config
from secmon.config.xml import parse_xml
from secmon.engine.rules.loader import DraftCache
from secmon.engine.ruleset.compiled import Settings
from secmon.engine.ruleset.diagnostics import RulesetError
from secmon.engine.ruleset.files import NO_CHANGE, Sources, collect, compile_sources, read_section, settings_of

REMEMBERED = 4
"""Rulesets whose findings are remembered: validations come often, changes do not."""
MOST_BROKEN = 5
"""Files with errors that are told apart. A load ends at the first error, so that each costs a load."""


class Judge:
    """For the installation at ``paths``. Any method may be called from any thread; all take seconds at worst."""

    def __init__(self, paths: Paths) -> None:
        """Nothing is read before it is asked for."""
        self._paths = paths
        self._config = str(paths.main_config.relative_to(paths.root))
        self._compiling = threading.Lock()
        self._judged: dict[bytes, Sequence[Finding]] = {}
        self._cache = DraftCache()

    def findings(self, changed: Changed) -> Sequence[Finding]:
        """What is wrong with the ruleset, if files were ``changed``: an error or warnings."""
        try:
            with self._compiling:  # one at a time: each keeps a processor busy
                sources, settings = self._sources(changed)
                content = _digest(sources, settings)
                if content not in self._judged:
                    while len(self._judged) >= REMEMBERED:
                        del self._judged[next(iter(self._judged))]
                    self._judged[content] = self._compiled(sources, settings)
                return self._judged[content]
        except RulesetError as error:
            return [Finding(True, str(error.message), error.message.file)]
        except (ConfigError, OSError) as error:
            return [Finding(True, os_text(error) if isinstance(error, OSError) else error.message, "")]

    def objection(self, changed: Changed) -> Finding | None:
        """See ``cluster.node.RulesetFiles``.

        A ruleset that has errors is not made worse by a change after which errors are in the same files, or in fewer:
        so it can be mended file by file. Where very many files have errors, every change is accepted.
        """
        error = self._error(changed)
        if error is None or self._error(NO_CHANGE) is None:
            return error
        before = self._broken(NO_CHANGE)
        known: Set[str] = {one.file for one in before}
        if len(before) >= MOST_BROKEN:
            return None
        return next((one for one in self._broken(changed) if one.file not in known), None)

    def _error(self, changed: Changed) -> Finding | None:
        return next((one for one in self.findings(changed) if one.error), None)

    def _broken(self, changed: Changed) -> list[Finding]:
        """The first error of each file that has one: a file with an error is left out to see those after it."""
        found: list[Finding] = []
        while len(found) < MOST_BROKEN and (error := self._error(changed)) is not None:
            found.append(error)
            if not error.file or (error.file in changed and changed[error.file] is None):
                break
            changed = {**changed, error.file: None}
        return found

    def _compiled(self, sources: Sources, settings: Settings) -> Sequence[Finding]:
        try:
            made = compile_sources(sources, settings, cache=self._cache)
        except RulesetError as error:
            return [Finding(True, str(error.message), error.message.file)]
        return [Finding(False, str(message), message.file) for message in made.messages]

    def _sources(self, changed: Changed) -> tuple[Sources, Settings]:
        """Raises RulesetError, ConfigError, OSError."""
        config = changed.get(self._config)
        if config is None:
            config = self._paths.main_config.read_bytes()
        name = str(self._paths.main_config)
        section = read_section(parse_xml(config, name, code=1101), name)
        return collect(self._paths.root, section, changed), settings_of(self._paths, parse_main_config(config, name))


def _digest(sources: Sources, settings: Settings) -> bytes:
    """Of all that a load depends on."""
    whole = hashlib.blake2b(repr((settings, [str(one) for one in sources.messages])).encode())
    for path, data in (*sources.decoders, *sources.lists.items(), *sources.rules):
        whole.update(f"{path} {len(data)}\n".encode() + data)
    return whole.digest()
