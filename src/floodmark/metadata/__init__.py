"""The cluster's metadata: the image in memory and the store that persists it."""
