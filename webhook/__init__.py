"""The admission webhook process: validates and defaults FederatedHPA and CronFederatedHPA objects."""
