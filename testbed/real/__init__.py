"""Real control planes on one machine: builds or finds their binaries, launches them, joins them, ends them.

Used by tests/real and by the demo; the product itself never imports it. Nothing here needs a container, a
network other than the loop-back, or root: a control plane is etcd and kube-apiserver as ordinary processes
on free ports of 127.0.0.1.
"""
