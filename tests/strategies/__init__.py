"""What hypothesis draws for the tests of more than one room."""
