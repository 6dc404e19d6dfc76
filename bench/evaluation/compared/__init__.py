"""The systems that are compared, and the servers behind them."""
