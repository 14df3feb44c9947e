"""The admission webhook process: validates and defaults FederatedHPA and CronFederatedHPA objects."""

import fedhpa.lean_logging
