"""Members of consumer groups in six clients, each a process that says what it owns and reads."""
