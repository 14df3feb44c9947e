"""The process `fedhpa-controller`.

This folder holds what all kinds of objects share: flags, shards, the reconcile loop and its work queue,
publishing, telemetry. `controller.federatedhpa` reconciles FederatedHPAs of mode Centralized. `process` joins
them; the shared modules know no kind's reconciler.
"""

import fedhpa.lean_logging
