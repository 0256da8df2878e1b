"""The catalogue and its operations: one module per area of the API."""
