"""``/ciscat``: results of benchmark scans."""
