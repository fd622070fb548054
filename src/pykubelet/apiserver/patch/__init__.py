"""How a request changes an object: the four kinds of patches, and who owns which field afterwards."""
