"""PUBLIC: simulates whole clusters in one process, with a virtual clock and a seeded schedule.

`Simulation(seed).run()` raises `SimulationFailure`, with the seed and the last steps, when an
invariant breaks.
"""

from floodmark.testing.simulation.simulator import Simulation, SimulationFailure

__all__ = ["Simulation", "SimulationFailure"]
