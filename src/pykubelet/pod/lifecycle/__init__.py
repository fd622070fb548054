"""From a source's word to a pod's end: merge, table, plan, back-off, grace."""
