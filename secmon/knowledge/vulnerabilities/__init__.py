"""Advisories of vulnerabilities: read from OSV feeds, kept in one file for each ecosystem, asked for by package."""
