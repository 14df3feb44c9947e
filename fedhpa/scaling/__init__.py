"""Replica arithmetic: pods and usage in, replica counts out. Pure: no I/O, no clock, no object model."""
