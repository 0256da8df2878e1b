"""``/sca``: results of configuration assessments."""
