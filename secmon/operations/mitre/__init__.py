"""``/mitre``: MITRE ATT&CK."""
