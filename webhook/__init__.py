"""The admission webhook process: validates and defaults FederatedHPA and CronFederatedHPA objects."""

import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    # Where rich is installed, structlog imports it for tracebacks in colour, which our logs never show. That
    # is a seventh of the time in which the process starts.
    sys.modules["rich"] = None  # type: ignore[assignment]  # makes the import fail
    import structlog

    del sys.modules["rich"]
