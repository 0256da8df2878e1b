"""Role-based access control: model, evaluation and defaults (rbac.md)."""
