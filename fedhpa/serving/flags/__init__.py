"""The command-line flags of the processes: their types, where values come from, and the shared flags."""
