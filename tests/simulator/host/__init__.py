"""What simulated agents know of their hosts."""
