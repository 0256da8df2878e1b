"""The ``integration`` sections: programs with the public calling convention, and three services built in."""
