"""Sources of events that fall silent: agents, and the places their events come from (docs/silent-sources.md)."""
