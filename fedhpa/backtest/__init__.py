"""Objects over recorded days: recordings, a model of the workload, runs and reports.

Other packages import from here. `fedhpa.backtest.result` has what a backtest returns.
"""

from fedhpa.backtest.comparison import (
    PRESENT,
    Candidate,
    compare,
    run_of,
    scaling_object,
)
from fedhpa.backtest.model import SHARED, TIED, Model, Options, measured_start, model_of
from fedhpa.backtest.recorded import (
    CLOSE,
    Fidelity,
    censored_part,
    fidelity,
    hidden_steps,
    recorded_run,
    sizes_of,
)
from fedhpa.backtest.recording import (
    ClusterSeries,
    Recording,
    decode_recording,
    encode_recording,
    recorded_spec,
)
from fedhpa.backtest.simulation import simulate
from fedhpa.backtest.suggestion import Suggestion, suggest
from fedhpa.backtest.variants import Variant, parse_variants, variant_name, varied
