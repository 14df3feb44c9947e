"""Code that tests share: an in-memory network, worlds of clusters and processes, one fake Kubernetes API."""
