from unit.runtime.process.conftest import any_machine, isolated, plain

__all__ = ["any_machine", "isolated", "plain"]
