"""Agents as every node knows them: the registry that the master keeps, and what agents say of themselves."""
