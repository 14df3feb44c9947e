"""`python -m controller` runs the process."""

from controller.process import main

main()
