"""What runs on Spark: the session, and each step of the bulk job."""
