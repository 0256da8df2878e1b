"""The reader of alert files, which the store of alerts shares: see ``secmon.alerts.alert_reader``."""

from secmon.alerts.alert_reader import AlertReader, Line, Position

__all__ = ["AlertReader", "Line", "Position"]
