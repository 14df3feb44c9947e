"""A closed loop in virtual time: simulated member HPAs, and the hub's passes that assign their bounds."""
