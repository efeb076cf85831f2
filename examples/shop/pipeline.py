"""A shop: orders come in as a stream, products are a table, revenue goes out by the minute.

Run it with `floodmark pipeline run examples/shop` against a broker that has the topics `orders` and
`products`, or see all of it at work with `floodmark demo`, which runs this very file.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from floodmark.pipeline import Pipeline
from floodmark.service import service

pipeline = Pipeline("shop")

# A stream of orders. A record that is no such JSON goes to the topic orders-dead with the reason in
# its headers; without dead_letters it would stop the pipeline. The watermark says how late an order
# may come and still be counted. {orders} is a setting, see pipeline.toml.
pipeline.source(
    "orders",
    topic="{orders}",
    schema="order_id STRING, product_id STRING, quantity INT, ordered_at TIMESTAMP",
    watermark=("ordered_at", "5 seconds"),
    dead_letters="{orders}-dead",
)

# A topic as a table: the last record of each key, as it is when a batch begins.
pipeline.lookup(
    "products",
    topic="{products}",
    key="product_id",
    schema="product_id STRING, name STRING, category STRING, price DOUBLE",
)


@pipeline.temporary_view
def priced_orders(orders: DataFrame, products: DataFrame) -> DataFrame:
    """Each order with its product; the parameters name the sources."""
    joined = orders.join(products, "product_id", "left")
    return joined.withColumn("amount", F.round(F.col("quantity") * F.col("price"), 2))


@dataclass
class Revenue:
    """A row of the topic revenue, as Java sees it."""

    category: str
    since: str
    revenue: float | None = None
    orders: int = 0


# `floodmark service tables examples/shop` serves the last row of each category to Dubbo consumers.
@service.table("dev.floodmark.shop.RevenueTable", row=Revenue)
@pipeline.sink(topic="{revenue}", key="category", output_mode="update")
def revenue(priced_orders: DataFrame) -> DataFrame:
    """Revenue of each category in windows of ten seconds, written exactly once per change."""
    windows = priced_orders.groupBy(F.window("ordered_at", "10 seconds"), "category")
    totals = windows.agg(F.round(F.sum("amount"), 2).alias("revenue"), F.count("*").alias("orders"))
    return totals.select("category", F.col("window.start").alias("since"), "revenue", "orders")


@pipeline.table("{tables}/orders")
def order_archive(priced_orders: DataFrame) -> DataFrame:
    """Every order with its price as Parquet files, each exactly once."""
    return priced_orders.select("order_id", "name", "category", "amount", "ordered_at")
