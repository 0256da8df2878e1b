"""Vulnerabilities of hosts: what agents report as installed, compared with the advisories in force."""
