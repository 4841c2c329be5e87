"""The embedded cluster: a real Kafka broker on this machine, for development, demos and tests."""
