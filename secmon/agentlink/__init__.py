"""The agents' side of a node: enrolment, connections, shared files, commands."""
