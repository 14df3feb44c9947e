"""Pure replica arithmetic: pods and usage in, replica counts out. No I/O, no clock, no object model."""
