"""Alerts: found, counted and followed over all nodes. The nodes that have raised them answer for their own."""
