"""Checks of an API server, run against a real kube-apiserver and against the embedded one.

A check is a conversation (`Talk`) with a `PlaneUnderTest`. It asserts facts, and records what the server
answered. The recorded answers of a real kube-apiserver are in tests/conformance/data/plane; both planes must
give the same answers.
"""
