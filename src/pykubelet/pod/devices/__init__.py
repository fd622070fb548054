"""Which devices of the plug-ins a container gets, and what is remembered of it."""
