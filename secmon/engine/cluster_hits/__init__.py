"""Composite rules that are counted over the cluster: own hits to other nodes, and theirs in memory."""
