"""Reads and deletions of what hosts have reported, on the nodes of their agents: what the areas of the API share."""
