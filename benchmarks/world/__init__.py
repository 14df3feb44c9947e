"""A model of clusters and their autoscalers without product code, so that it can judge the product."""
