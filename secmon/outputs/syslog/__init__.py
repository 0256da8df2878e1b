"""Alerts by syslog: messages in the public formats, over UDP, TCP and TLS."""
