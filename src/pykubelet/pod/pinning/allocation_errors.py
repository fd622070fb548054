"""Why a container cannot have what it asks for alone, in upstream's words: they become the reason of a failed pod."""


class AllocationError(Exception):
    """Something that should not have happened: the scheduler saw room where there is none of this kind."""

    @property
    def reason(self) -> str:
        return "UnexpectedAdmissionError"

    @property
    def message(self) -> str:
        return f"Allocate failed due to {self}, which is unexpected"


class SmtAlignmentError(AllocationError):
    """Whole cores cannot be had."""

    def __init__(self, requested: int, cpus_per_core: int, available: int | None = None) -> None:
        if available is None:
            told = f"requested {requested} cpus not multiple cpus per core = {cpus_per_core}"
        else:
            told = (
                f"not enough free physical CPUs: available physical CPUs = {available}, "
                f"requested CPUs = {requested}, CPUs per core = {cpus_per_core}"
            )
        super().__init__(f"SMT Alignment Error: {told}")

    @property
    def reason(self) -> str:
        return "SMTAlignmentError"

    @property
    def message(self) -> str:
        return str(self)


class TopologyAffinityError(AllocationError):
    """No NUMA nodes have all that is asked for, as the policy wants it."""

    def __init__(self) -> None:
        super().__init__("Resources cannot be allocated with Topology locality")

    @property
    def reason(self) -> str:
        return "TopologyAffinityError"

    @property
    def message(self) -> str:
        return str(self)
