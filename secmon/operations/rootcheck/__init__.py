"""``/rootcheck``: findings of the rootkit and policy scan."""
