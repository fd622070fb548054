"""Custom resources: what a CustomResourceDefinition says, made into rules for the objects that it defines."""
