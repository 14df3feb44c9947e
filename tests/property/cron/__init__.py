"""Random histories of rules: the steps, a hub that stores what the controller writes, and an oracle."""
