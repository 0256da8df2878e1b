"""What clients can ask, by area of the API, and what the nodes ask each other (``internal``)."""
