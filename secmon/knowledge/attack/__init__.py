"""MITRE ATT&CK: tactics, techniques, groups, software and mitigations, and how they are related (analysis-api.md 8)."""
