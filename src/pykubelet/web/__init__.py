"""What servers and clients share: TLS that reloads, certificates, doors with limits, upgrades, tunnels."""
