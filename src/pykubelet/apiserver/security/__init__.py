"""Who may do what: certificates, tokens, and the rules for users, nodes and service accounts."""
