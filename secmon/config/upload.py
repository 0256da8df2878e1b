"""What a main configuration that is uploaded over the API may contain (manager.md 5.2; switches of api.yaml).

The checks look at elements, where the public counterpart searches the text for patterns: comments and other sections do
not matter, and white space or attributes cannot hide an option.
"""

from collections.abc import Callable, Iterator

from secmon.common.errors import SecmonError
from secmon.config.agent_versions import above_default
from secmon.config.api import RemoteCommand, UploadConfiguration
from secmon.config.as_json import MAIN_ROOT, Json, JsonObject, convert_main
from secmon.config.quota import hourly_quota
from secmon.config.xml import Element, XmlError

Quota = Callable[[str], int]
"""The hourly quota of an API key; raises 1131."""


def check_upload(
    new: Element, saved: Element | None, switches: UploadConfiguration, *, quota: Quota = hourly_quota
) -> None:
    """Check ``new`` against what ``switches`` forbid; ``saved`` is the configuration it replaces, if readable.

    Raises, in this order: 1124 (remote command), 1129 (higher agent versions), 1130 or 1131 (public key), 1127
    (protected section), 1113 (cannot be converted). Blocks when ``quota`` has to be asked.
    """
    check_commands(new, switches)
    if not switches.agents.allow_higher_versions.allow:
        _check_versions(new)
    if not switches.integrations.virustotal.public_key.allow:
        _check_keys(new, switches.integrations.virustotal.public_key.minimum_quota, quota)
    after, before = convert_main(new, code=1113), _converted(saved)
    if not switches.indexer.allow and after.get("indexer") != before.get("indexer"):
        raise SecmonError(1127, "indexer")
    if not switches.limits.eps.allow and _value(after, *_EPS) != _value(before, *_EPS):
        raise SecmonError(1127, "global.limits.eps")
    # A program that this node runs: it can be set only in the file on the host.
    for name in ("exec_path", "socket"):
        if _value(after, *_KEY_REQUEST, name) != _value(before, *_KEY_REQUEST, name):
            raise SecmonError(1127, f"auth.key_request.{name}")


def check_commands(document: Element, switches: UploadConfiguration, *, root: str = MAIN_ROOT) -> None:
    """Refuse commands that ``switches`` forbid, in sections below elements ``root``. Raises 1124."""
    commands = switches.remote_commands
    _check_commands("localfile", _sections(document, "localfile", root=root), commands.localfile)
    _check_commands("wodle command", _command_wodles(document, root), commands.wodle_command)


def _sections(document: Element, *names: str, root: str = MAIN_ROOT) -> Iterator[Element]:
    for each in document.children:
        if each.name == root:
            yield from (section for section in each.children if section.name in names)


def _command_wodles(document: Element, root: str) -> Iterator[Element]:
    for wodle in _sections(document, "wodle", root=root):
        if wodle.attributes.get("name", "").strip().lower() == "command":
            yield wodle


def _descendants(element: Element, name: str) -> Iterator[Element]:
    for child in element.children:
        if child.name == name:
            yield child
        yield from _descendants(child, name)


def _check_commands(place: str, sections: Iterator[Element], switch: RemoteCommand) -> None:
    if switch.allow:
        return
    for section in sections:
        for option in _descendants(section, "command"):
            command = option.inner_xml if option.has_children else _text(option)
            if command and command not in switch.exceptions:
                raise SecmonError(1124, f"line {option.line}: {place}: {command[:200]!r}")


def _check_versions(document: Element) -> None:
    for section in _sections(document, "remote", "auth"):
        higher = [each for each in _descendants(section, "allow_higher_versions") if _text(each).lower() == "yes"]
        higher += [each for each in _descendants(section, "highest_version") if above_default(_text(each))]
        if higher:
            raise SecmonError(1129, f"line {min(each.line for each in higher)}: {section.name}")


def _text(option: Element) -> str:
    return (option.text or "").strip()


def _check_keys(document: Element, public_quota: int, quota: Quota) -> None:
    for section in _sections(document, "integration"):
        texts = {name: [_text(each) for each in _descendants(section, name)] for name in _ASKED}
        if any(name.lower() == "virustotal" for name in texts["name"]):
            for key in filter(None, texts["api_key"]):
                if quota(key) == public_quota:
                    raise SecmonError(1130, f"line {section.line}")


_ASKED = ("name", "api_key")


def _converted(saved: Element | None) -> JsonObject:
    """Empty for a file that cannot be read: then every protected section counts as changed."""
    if saved is None:
        return {}
    try:
        return convert_main(saved)
    except XmlError:
        return {}


_EPS = ("global", "limits", "eps")
_KEY_REQUEST = ("auth", "key_request")


def _value(config: JsonObject, *path: str) -> Json:
    value: Json = config
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
