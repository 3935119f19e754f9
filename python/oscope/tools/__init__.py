"""What is looked at once, without samples: traces, sessions, DHCP, devices, transfers, the doctor."""
