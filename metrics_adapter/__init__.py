"""The metrics adapter: an aggregated API server for the metrics of all member clusters."""

import fedhpa.lean_logging
