"""Bringing a Kafka 4 cluster in line with a topology, repeatably, touching nothing that it did not make."""
