"""The demo: nodes of a cluster and simulated agents on this host."""
