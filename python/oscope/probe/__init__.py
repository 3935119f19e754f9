"""The probe as a process: how it is found and started, its protocol, and the workloads that it describes."""
