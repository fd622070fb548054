"""Every series of cAdvisor's that is the same for all containers: its name, what it says, and where the value is."""

from collections.abc import Callable
from typing import Final

from pykubelet.pod.stats.stats import Cpu, Disk, DiskActivity, DiskIo, Interface, Memory, Pressure, Usage

NANO: Final = 1e-9
MICRO: Final = 1e-6

Value = int | float | None
CPU: Final[tuple[tuple[str, str, Callable[[Cpu], Value]], ...]] = (
    ("container_cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds.", lambda c: c.user * NANO),
    (
        "container_cpu_system_seconds_total",
        "Cumulative system cpu time consumed in seconds.",
        lambda c: c.system * NANO,
    ),
    (
        "container_cpu_cfs_periods_total",
        "Number of elapsed enforcement period intervals.",
        lambda c: c.periods if c.quota else None,
    ),
    (
        "container_cpu_cfs_throttled_periods_total",
        "Number of throttled period intervals.",
        lambda c: c.throttled_periods if c.quota else None,
    ),
    (
        "container_cpu_cfs_throttled_seconds_total",
        "Total time duration the container has been throttled.",
        lambda c: c.throttled * NANO if c.quota else None,
    ),
)
MEMORY: Final[tuple[tuple[str, str, Callable[[Memory], Value]], ...]] = (
    ("container_memory_cache", "Number of bytes of page cache memory.", lambda m: m.cache),
    ("container_memory_rss", "Size of RSS in bytes.", lambda m: m.rss),
    ("container_memory_kernel_usage", "Size of kernel memory allocated in bytes.", lambda m: m.kernel),
    ("container_memory_mapped_file", "Size of memory mapped files in bytes.", lambda m: m.mapped_file),
    ("container_memory_swap", "Container swap usage in bytes.", lambda m: m.swap),
    ("container_memory_failcnt", "Number of memory usage hits limits", lambda m: m.failures),
    (
        "container_memory_usage_bytes",
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
        lambda m: m.usage,
    ),
    ("container_memory_max_usage_bytes", "Maximum memory usage recorded in bytes", lambda m: m.max_usage),
    ("container_memory_working_set_bytes", "Current working set in bytes.", lambda m: m.working_set),
    ("container_memory_total_active_file_bytes", "Current total active file in bytes.", lambda m: m.active_file),
    ("container_memory_total_inactive_file_bytes", "Current total inactive file in bytes.", lambda m: m.inactive_file),
)
SPEC: Final[tuple[tuple[str, str, Callable[[Usage], Value]], ...]] = (
    ("container_spec_cpu_period", "CPU period of the container.", lambda u: u.cpu.period if u.cpu else None),
    ("container_spec_cpu_quota", "CPU quota of the container.", lambda u: u.cpu.quota or None if u.cpu else None),
    ("container_spec_cpu_shares", "CPU share of the container.", lambda u: u.cpu.shares if u.cpu else None),
    (
        "container_spec_memory_limit_bytes",
        "Memory limit for the container.",
        lambda u: u.memory.limit or 0 if u.memory else None,
    ),
    (
        "container_spec_memory_swap_limit_bytes",
        "Memory swap limit for the container.",
        lambda u: u.memory.swap_limit or 0 if u.memory else None,
    ),
    (
        "container_spec_memory_reservation_limit_bytes",
        "Memory reservation limit for the container.",
        lambda u: u.memory.reservation if u.memory else None,
    ),
)
GENERAL: Final[tuple[tuple[str, str, Callable[[Usage], Value]], ...]] = (
    ("container_last_seen", "Last time a container was seen by the exporter", lambda u: u.at // 1_000_000_000),
    ("container_processes", "Number of processes running inside the container.", lambda u: u.processes),
    ("container_file_descriptors", "Number of open file descriptors for the container.", lambda u: u.descriptors),
    ("container_threads", "Number of threads running inside the container", lambda u: u.threads),
    (
        "container_threads_max",
        "Maximum number of threads allowed inside the container, infinity if value is zero",
        lambda u: u.threads_max,
    ),
    ("container_sockets", "Number of open sockets for the container.", lambda u: u.sockets),
    (
        "container_cpu_load_average_10s",
        "Value of container cpu load average over the last 10 seconds.",
        lambda u: u.loads[0] if u.loads else None,
    ),
    (
        "container_cpu_load_d_average_10s",
        "Value of container cpu load.d average over the last 10 seconds.",
        lambda u: u.loads[1] if u.loads else None,
    ),
    ("container_oom_events_total", "Count of out of memory events observed for the container", lambda u: u.oom_kills),
)
PRESSURES: Final[tuple[tuple[str, str, Callable[[Usage], Pressure | None]], ...]] = (
    ("cpu", "CPU", lambda u: u.cpu.pressure if u.cpu else None),
    ("memory", "memory", lambda u: u.memory.pressure if u.memory else None),
    ("io", "IO", lambda u: u.io_pressure),
)
NETWORK: Final[tuple[tuple[str, str, Callable[[Interface], int]], ...]] = (
    ("receive_bytes", "bytes received", lambda i: i.rx_bytes),
    ("receive_packets", "packets received", lambda i: i.rx_packets),
    ("receive_packets_dropped", "packets dropped while receiving", lambda i: i.rx_dropped),
    ("receive_errors", "errors encountered while receiving", lambda i: i.rx_errors),
    ("transmit_bytes", "bytes transmitted", lambda i: i.tx_bytes),
    ("transmit_packets", "packets transmitted", lambda i: i.tx_packets),
    ("transmit_packets_dropped", "packets dropped while transmitting", lambda i: i.tx_dropped),
    ("transmit_errors", "errors encountered while transmitting", lambda i: i.tx_errors),
)
IO: Final[tuple[tuple[str, str, Callable[[DiskIo], Value]], ...]] = (
    ("container_fs_reads_bytes_total", "Cumulative count of bytes read", lambda i: i.read_bytes),
    ("container_fs_reads_total", "Cumulative count of reads completed", lambda i: i.reads),
    ("container_fs_writes_bytes_total", "Cumulative count of bytes written", lambda i: i.written_bytes),
    ("container_fs_writes_total", "Cumulative count of writes completed", lambda i: i.writes),
)
DISK: Final[tuple[tuple[str, str, Callable[[Disk], Value]], ...]] = (
    ("container_fs_inodes_free", "Number of available Inodes", lambda d: d.inodes_free),
    ("container_fs_inodes_total", "Number of Inodes", lambda d: d.inodes),
    (
        "container_fs_limit_bytes",
        "Number of bytes that can be consumed by the container on this filesystem.",
        lambda d: d.capacity,
    ),
    (
        "container_fs_usage_bytes",
        "Number of bytes that are consumed by the container on this filesystem.",
        lambda d: d.used,
    ),
)
ACTIVITY: Final[tuple[tuple[str, str, Callable[[DiskActivity], Value]], ...]] = (
    ("container_fs_reads_total", "Cumulative count of reads completed", lambda a: a.reads),
    ("container_fs_sector_reads_total", "Cumulative count of sector reads completed", lambda a: a.sectors_read),
    ("container_fs_reads_merged_total", "Cumulative count of reads merged", lambda a: a.reads_merged),
    (
        "container_fs_read_seconds_total",
        "Cumulative count of seconds spent reading",
        lambda a: a.read_time / 1000,
    ),
    ("container_fs_writes_total", "Cumulative count of writes completed", lambda a: a.writes),
    ("container_fs_sector_writes_total", "Cumulative count of sector writes completed", lambda a: a.sectors_written),
    ("container_fs_writes_merged_total", "Cumulative count of writes merged", lambda a: a.writes_merged),
    (
        "container_fs_write_seconds_total",
        "Cumulative count of seconds spent writing",
        lambda a: a.write_time / 1000,
    ),
    ("container_fs_io_current", "Number of I/Os currently in progress", lambda a: a.in_progress),
    ("container_fs_io_time_seconds_total", "Cumulative count of seconds spent doing I/Os", lambda a: a.io_time / 1000),
    (
        "container_fs_io_time_weighted_seconds_total",
        "Cumulative weighted I/O time in seconds",
        lambda a: a.weighted_io_time / 1000,
    ),
)
"""What the kernel counts for a device as a whole, so the node alone has it."""
