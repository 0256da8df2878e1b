"""Reading YAML that users write: plain values, without aliases and duplicate keys.

An alias (``*name``) can expand a few lines to more than any memory holds.
"""

from typing import Any

import yaml
from yaml.nodes import Node

from secmon.common.errors import ConfigError, Fault

MAX_DIGITS = 100
"""Of a number, with its sign and separators."""


class NoAliases(yaml.parser.Parser, yaml.composer.Composer):
    """Part of a loader that rejects aliases: nothing that is loaded is larger than its text."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """See ``yaml.composer``. Raises ComposerError, which is a MarkedYAMLError."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML has stubs for most of it
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not allowed here", event.start_mark)
        return super().compose_node(parent, index)


class _UniqueKeys(yaml.constructor.BaseConstructor):
    """Part of a loader that rejects duplicate keys, of which the first would be ignored."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """See ``yaml.constructor``. Raises ConstructorError, which is a MarkedYAMLError."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"'{key.value}' occurs twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class PlainLoader(NoAliases, yaml.SafeLoader):
    """Plain values; of a key that occurs twice the last one.

    A number has at most :data:`MAX_DIGITS` characters, so that every message can show it.
    """

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """See ``yaml.constructor``. Raises ConstructorError, which is a MarkedYAMLError."""
        return super().construct_yaml_int(_bounded(node))

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """See ``yaml.constructor``. Raises ConstructorError, which is a MarkedYAMLError."""
        return super().construct_yaml_float(_bounded(node))


PlainLoader.add_constructor("tag:yaml.org,2002:int", PlainLoader.construct_yaml_int)
PlainLoader.add_constructor("tag:yaml.org,2002:float", PlainLoader.construct_yaml_float)


def _bounded(number: yaml.ScalarNode) -> yaml.ScalarNode:
    if len(number.value) > MAX_DIGITS:
        raise yaml.constructor.ConstructorError(
            None, None, f"a number of more than {MAX_DIGITS} characters", number.start_mark
        )
    return number


class _Loader(_UniqueKeys, PlainLoader):
    """Plain values."""


class _TextLoader(_UniqueKeys, NoAliases, yaml.BaseLoader):
    """Every scalar is a text: 1.10 is no number."""


def read_yaml(data: bytes | str, file: str, *, code: int, texts: bool = False) -> object:
    """Plain values of the YAML in ``data``; with ``texts`` every scalar is a text.

    Raises ConfigError ``code``, which names ``file`` and the line.
    """
    try:
        return yaml.load(data, _TextLoader if texts else _Loader)  # both are safe: plain values only
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(file, f"line {line}", Fault(error.problem), "valid YAML", code=code) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: impossible dates and the like, which the loader does not wrap.
        raise ConfigError(file, "file", Fault(error), "valid YAML", code=code) from error
