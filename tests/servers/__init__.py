"""Real servers for tests: on loopback, on free ports, ended by the test that started them."""
