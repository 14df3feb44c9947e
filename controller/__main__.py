"""`python -m controller`."""

from controller.process import main

main()
