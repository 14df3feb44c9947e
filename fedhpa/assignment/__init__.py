"""Assignment arithmetic: how many replicas each cluster gets. Pure: no I/O and no clock."""
