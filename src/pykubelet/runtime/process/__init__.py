"""The embedded runtime: containers are this machine's processes, without a daemon and without root."""
