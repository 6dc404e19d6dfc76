"""What the tests of the broker's core share: raw packets, a table of them, a core to drive."""
