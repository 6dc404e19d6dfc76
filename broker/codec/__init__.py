"""Bytes and packets: framing, the strict checks, and the ``mqtt5`` package behind them."""
