"""Alerts by mail: grouped, limited to so many mails an hour, at any SMTP server."""
