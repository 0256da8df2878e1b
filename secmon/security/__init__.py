"""Users, roles, policies and rules; passwords, tokens, revocation; the audit log."""
