"""The link between nodes: wire format, credentials, the Peer service."""
