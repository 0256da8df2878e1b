"""``/syscheck``: files and registry entries whose integrity agents watch."""
