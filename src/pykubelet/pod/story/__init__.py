"""A pod's story: what state it is in and why, what comes next, and where the time went. Pure, from its moments."""
