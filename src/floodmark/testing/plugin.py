"""The pytest plugin that installs with the package."""
