"""FederatedHPA in mode Centralized: read the clusters, decide, write the scale and the status."""
