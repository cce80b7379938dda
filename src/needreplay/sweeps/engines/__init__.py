"""What runs a sweep's runs: processes of this machine, or the tasks of a Ray cluster."""
