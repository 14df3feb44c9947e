"""Named scenarios with a budget: `make bench`."""
