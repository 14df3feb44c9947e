"""A federation in memory: embedded hub and members, with the product's controller and adapter.

Each process runs the product's code from its HTTP client up, and the servers are the testbed's. Only sockets,
files and the clock are replaced. Tests marked `looptime` pass hours in seconds.
"""

from tests.support.federation.adapter import Adapter, adapter
from tests.support.federation.controller import Controller, completed_reconciles
from tests.support.federation.planes import ADMIN, HPAS, LEASES, Rescale, Seen
from tests.support.federation.world import Federation, federation
from tests.support.timing import background, until
