"""What an API server must do for our processes and for kubectl: asked of a real one, and of the embedded one.

Each check is written once, as a conversation (`Talk`) with a `PlaneUnderTest`: it asserts the facts that we
rely on, and everything that was said is a transcript. The transcripts of the real kube-apiserver are kept in
tests/conformance/data/plane; `python -m tests.conformance.plane record` makes them again. The embedded plane
must say the same; so must the real one, or a new version of Kubernetes has changed something.
"""
