"""`python -m metrics_adapter`."""

from metrics_adapter.process import main

main()
