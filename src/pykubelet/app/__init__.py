"""The wiring: the only place that knows all rooms."""
