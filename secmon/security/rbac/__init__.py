"""Who may do what: the model, its evaluation and the defaults (rbac.md)."""
