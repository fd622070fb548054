"""Other API servers behind this one: which versions of groups they answer for, and how requests come to them."""
