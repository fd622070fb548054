"""Claims on devices that were allocated to pods: which a pod uses, what drivers have prepared of them, and for whom."""
