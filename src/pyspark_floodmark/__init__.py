"""Lets Spark find the data source `floodmark` by its name.

Spark imports every top-level module whose name begins with `pyspark_` and registers its
`DefaultSource`; nobody else imports this module.
"""

from floodmark.pipeline.datasource.source import FloodmarkSource


class DefaultSource(FloodmarkSource):
    """The data source under the name that Spark looks for."""
