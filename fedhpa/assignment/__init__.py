"""Pure assignment arithmetic: how many replicas each cluster is given."""
