"""MITRE ATT&CK."""
