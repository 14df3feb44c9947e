"""Real control planes on one machine: finds or builds the programs, and runs them.

tests/real and the demo use it; the product never imports it. A control plane is etcd, kube-apiserver and
controllers as ordinary processes on free ports of 127.0.0.1. It needs no container, no root and no network.
"""
