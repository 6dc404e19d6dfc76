"""How fluid the map page of a large world is, in a headless Chromium."""
