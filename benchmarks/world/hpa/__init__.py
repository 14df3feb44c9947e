"""A model of Kubernetes' HorizontalPodAutoscaler controller for one object of one cluster."""

from benchmarks.world.hpa.controller import Hpa, Sync
from benchmarks.world.hpa.pods import PodFacts
