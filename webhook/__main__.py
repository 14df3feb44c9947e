"""Runs fedhpa-webhook as `python -m webhook`."""

from webhook.process import main

main()
