"""Mode Distributed: the HorizontalPodAutoscalers of the members."""
