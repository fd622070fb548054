"""As many replicas as the load asks for."""
