"""Plain YAML: without aliases, with which a few lines could expand to more than the memory."""

import yaml
from yaml.nodes import Node


class NoAliases(yaml.parser.Parser, yaml.composer.Composer):
    """Part of a loader that refuses ``*name``: nothing of what is loaded is larger than its text."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """See ``yaml.composer``. Raises ComposerError, which is a MarkedYAMLError."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML has stubs for most of it
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not allowed here", event.start_mark)
        return super().compose_node(parent, index)
