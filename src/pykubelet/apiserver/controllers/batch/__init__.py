"""Jobs and cron jobs: what runs to its end, once or by the clock."""
