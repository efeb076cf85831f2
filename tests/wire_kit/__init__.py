"""What the wire's tests share: all message classes, and strategies made from their definitions."""
