"""``/syscollector``: the hardware, system, software, processes, ports, networks and users of hosts."""
