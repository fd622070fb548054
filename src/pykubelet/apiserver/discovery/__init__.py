"""What a client asks first: groups, kinds, schemas, health."""
