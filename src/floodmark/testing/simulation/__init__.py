"""PUBLIC: whole clusters in one process, on a virtual clock, by a seeded schedule.

`Simulation(seed).run()` raises `SimulationFailure`, with the seed and the last steps, when a
promise is broken.
"""

from floodmark.testing.simulation.simulator import Simulation, SimulationFailure

__all__ = ["Simulation", "SimulationFailure"]
