"""Building what agents of groups receive: merged files of groups and of their combinations. On the master only."""
