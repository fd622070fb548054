"""The page: what a browser shows of this node and its pods, live."""
