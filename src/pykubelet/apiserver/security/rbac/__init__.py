"""Role-based access control: what roles allow, to whom bindings give them, and who may give what to others."""
