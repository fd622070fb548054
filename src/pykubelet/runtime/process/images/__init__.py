"""Images: pulled from registries or read from archives by ourselves, unpacked once, and shared by all containers."""
