"""What the cluster knows about itself: the image in memory, the store that keeps it."""
