"""The checks: pure functions from an observation to findings, one module for each chain of checks."""
