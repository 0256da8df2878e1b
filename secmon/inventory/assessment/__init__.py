"""Configuration assessment (agent-data.md 5): what agents report of their policies, and the files of policies."""
