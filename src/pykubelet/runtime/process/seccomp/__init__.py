"""Which system calls a container may make: profiles as OCI runtimes read them, made into filters for the kernel."""
