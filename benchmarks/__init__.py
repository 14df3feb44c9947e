"""Named scenarios and their budget: `make bench`."""
