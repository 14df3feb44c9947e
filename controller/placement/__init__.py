"""The placement of a workload as others see it: published for them, or followed where they decide it."""
