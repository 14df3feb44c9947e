"""The plugin's program: the command `fedhpa`."""

from fedhpa.cli.main import main

main()
