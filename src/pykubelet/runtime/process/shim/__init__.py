"""The part of the process runtime that lives on without the agent. It stands alone: the standard library, and of that
only what is small, because every container has one of these processes beside it."""
