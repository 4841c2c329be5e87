"""For people: the `bellwether` command. Trusted for nothing; it decides nothing that matters."""
