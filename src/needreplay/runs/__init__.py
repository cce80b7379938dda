"""Running: many jobs on all cores, with a bar that says how long it still takes."""
