"""What the agent is told: the kubelet's configuration file and flags, made into one value."""
