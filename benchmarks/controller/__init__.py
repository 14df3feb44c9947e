"""Scenarios of the controller: CPU, lag, memory and writes over a fleet in memory."""
