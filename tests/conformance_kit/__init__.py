"""Fetches, builds and runs other projects' own test programs against a broker."""
