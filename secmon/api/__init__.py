"""The HTTP adapter: it turns requests into calls and results into responses, and knows no operation."""
