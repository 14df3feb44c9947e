"""The `fedhpa` command: one module a command or group of commands, registered in `main`."""
