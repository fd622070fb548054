"""Which node a pod gets, and who has to make room for it."""
