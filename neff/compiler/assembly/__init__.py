"""From kernels in order to engine programs: linked, placed in memory, scheduled, proved."""
