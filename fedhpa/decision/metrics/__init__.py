"""The metrics of a FederatedHPA: their values over all clusters, and the replicas that they propose."""
