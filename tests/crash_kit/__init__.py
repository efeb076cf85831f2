"""What the crash tests are made of: a load that remembers, a reader, and a checker of promises."""
