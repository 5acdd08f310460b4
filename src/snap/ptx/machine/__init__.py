"""Run threads and warps: schedules, memory, caches, deadlocks."""
