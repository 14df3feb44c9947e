"""Objects, versions, history and garbage collection."""
