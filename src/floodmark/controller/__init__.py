"""Decisions for the cluster: pure cores, one file per kind of decision, and their shells."""
