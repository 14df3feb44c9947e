"""The sources of members: each gives records of clusters, and the access to them, by one method each.

A source is the only code that knows what kind of object registers a cluster, and where its credentials are.
"""

from fedhpa.members.sources.choice import sources_of
from fedhpa.members.sources.source import Source
